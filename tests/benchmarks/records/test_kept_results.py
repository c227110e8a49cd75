"""A command that stores results loses none to other code, signals, a second process or an ASCII terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs import measuring
from mage_envs.cli.program import main
from mage_envs.files.locking import LOCK, FolderInUse, FolderLock
from tests.processes import ROOT

KUHN = ("--env", "mage/KuhnPoker-Meta-v0", "--no-baselines")
OPPONENTS = """
import os, pathlib, tempfile, time

class Moves:
    def reset(self, rng): pass
    def act(self, turn):
        os.chdir(tempfile.gettempdir())
        return turn.legal_actions[0]

class Slow:
    calls = 0
    def reset(self, rng): pass
    def act(self, turn):
        Slow.calls += 1
        if Slow.calls == 60 and not os.path.exists("reached"):
            pathlib.Path("reached").touch()
            time.sleep(600)
        return turn.legal_actions[0]
"""


def start_eval(folder: Path, *words: str, **settings: str) -> subprocess.Popen[str]:
    (folder / "strange.py").write_text(OPPONENTS)
    script = "import sys; from mage_envs.cli import program; sys.argv[0] = 'mage'; sys.exit(program.mage())"
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_opponent_that_changes_the_folder_moves_no_records(tmp_path: Path) -> None:
    process = start_eval(
        tmp_path, "eval", "scripted:first", *KUHN, "--opponents", "strange:Moves", "--rows", "2", "--out", "r"
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "strange:Moves" in out
    assert len(Records(tmp_path / "r").lines) == 4
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {
        "run.json",
        "root.json",
        "summary.json",
        "report.html",
    }


def wait_until_reached(folder: Path, running: subprocess.Popen[str]) -> None:
    """Wait until the slow opponent sleeps."""
    while not (folder / "reached").exists():
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.05)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_sigterm_keeps_what_ctrl_c_keeps(kind: signal.Signals, tmp_path: Path) -> None:
    words = (
        "eval",
        "scripted:first",
        *KUHN,
        "--opponents",
        "strange:Slow",
        "--rows",
        "40",
        "--batch",
        "8",
        "--out",
        "r",
    )
    running = start_eval(tmp_path, *words)
    wait_until_reached(tmp_path, running)
    running.send_signal(kind)
    _, err = running.communicate()
    num_stored = len(Records(tmp_path / "r").lines)
    assert (running.returncode, num_stored % 64 > 0) == (130, True)
    assert (
        f"Interrupted: {num_stored} of 80 meta-episodes are kept; the same command with --resume continues the run."
        in err
    )
    assert not (tmp_path / "r" / LOCK).exists()


def test_a_second_writer_is_refused_and_a_killed_one_never_blocks(tmp_path: Path) -> None:
    words = (
        "eval",
        "scripted:first",
        *KUHN,
        "--opponents",
        "strange:Slow",
        "--rows",
        "40",
        "--batch",
        "8",
        "--out",
        "r",
    )
    running = start_eval(tmp_path, *words)
    wait_until_reached(tmp_path, running)
    second = start_eval(tmp_path, *words, "--resume")
    _, err = second.communicate()
    assert second.returncode == 2
    assert err.splitlines() == [
        f"mage: {tmp_path / 'r'} is in use by process {running.pid}, which writes there. Wait until it ends, or "
        "stop it."
    ]
    running.kill()
    running.communicate()
    assert (tmp_path / "r" / LOCK).exists()
    third = start_eval(tmp_path, *words, "--resume")
    _, err = third.communicate()
    assert third.returncode == 0, err
    assert len(Records(tmp_path / "r").lines) == 80


def test_a_lock_ends_with_its_release(tmp_path: Path) -> None:
    ask = (
        f"from pathlib import Path; from mage_envs.files.locking import FolderLock; FolderLock(Path({str(tmp_path)!r}))"
    )
    with FolderLock(tmp_path):
        refused = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True)
        assert refused.stderr.splitlines()[-1].startswith(
            f"mage_envs.files.locking.FolderInUse: {tmp_path} is in use by"
        )
        assert issubclass(FolderInUse, OSError)
    assert [*tmp_path.iterdir()] == []
    assert subprocess.run([sys.executable, "-c", ask], cwd=ROOT).returncode == 0


def test_an_ascii_terminal_loses_nothing(tmp_path: Path) -> None:
    words = ("eval", "scripted:random", *KUHN, "--opponents", "kuhn/nash", "--rows", "8")
    outputs = []
    for number, settings in enumerate(({"PYTHONIOENCODING": "utf-8"}, {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})):
        process = start_eval(tmp_path, *words, "--out", f"r{number}", **settings)
        out, err = process.communicate()
        assert process.returncode == 0, err
        outputs.append(out)
        assert (tmp_path / f"r{number}" / "report.html").exists()
    assert "±" in outputs[0]
    assert "\\xb1" in outputs[1]


def test_the_files_come_before_the_table(tmp_path: Path) -> None:
    """The reader of the table is gone."""
    words = ("eval", "scripted:first", *KUHN, "--opponents", "kuhn/nash", "--rows", "1", "--out", "r")
    running = start_eval(tmp_path, *words)
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    running.communicate()
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {"summary.json", "scores.csv", "report.html"}


# -- a run that cannot be played -------------------------------------------------------------------------------


def run_eval(folder: Path, *words: str) -> int:
    return main(["eval", "scripted:first", *KUHN, "--rows", "1", "--out", str(folder), *words])


@pytest.mark.parametrize("wrong", [("--opponents", "kuhn/nosh"), ("--opponents", "no_such_module:Class")])
def test_a_misspelt_opponent_leaves_the_folder_free(wrong: tuple[str, str], tmp_path: Path) -> None:
    assert run_eval(tmp_path / "r", *wrong) == 2
    assert [*(tmp_path / "r").iterdir()] == []
    assert run_eval(tmp_path / "r", "--opponents", "kuhn/nash") == 0


def test_an_endpoint_that_is_down_leaves_the_folder_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = "llm:m@http://127.0.0.1:9/v1,attempts=1,cache=off"
    assert main(["eval", agent, *KUHN, "--rows", "1", "--out", str(tmp_path / "r")]) == 2
    assert "The first call failed" in capsys.readouterr().err
    assert not (tmp_path / "r" / "run.json").exists()
    assert run_eval(tmp_path / "r", "--opponents", "kuhn/nash") == 0


class Raises:
    def reset(self, rng: object) -> None: ...

    def act(self, turn: object) -> str:
        raise ValueError("broken")


def test_a_run_without_a_finished_meta_episode_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "r"
    assert run_eval(folder, "--opponents", "tests.benchmarks.records.test_kept_results:Raises") == 2
    assert len(Records(folder).failed) == 2
    for words in ((), ("--resume",)):
        assert run_eval(folder, "--opponents", "kuhn/nash", *words) == 0
    assert json.loads((folder / "root.json").read_text())["failed"] == []
    assert not (folder / "failures.jsonl").exists()
    capsys.readouterr()
    assert run_eval(folder, "--opponents", "kuhn/nash") == 2
    assert "holds a run; resume it with --resume, or choose another folder." in capsys.readouterr().err


# -- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_a_meta_episode_on_the_disk_keeps_less_than_ten_kilobytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measure the growth of the memory that is alive when the scores are computed, from 60 to 240 meta-episodes."""
    alive: list[int] = []
    summary_of = measuring.summary_of

    def measure(*arguments: object) -> object:
        alive.append(tracemalloc.get_traced_memory()[0])
        return summary_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(measuring, "summary_of", measure)
    words = ("--opponents", "kuhn/nash", "--batch", "16")
    assert run_eval(tmp_path / "warm", *words) == 0
    tracemalloc.start()
    try:
        for rows in (30, 120):
            assert run_eval(tmp_path / str(rows), *words, "--rows", str(rows)) == 0
    finally:
        tracemalloc.stop()
    assert 0 < (alive[2] - alive[1]) / 180 < 10_000
