"""A record is data: no command that reads a run of a stranger executes anything, or opens a file outside the run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from tests.packages import mark_params
from tests.untrusted.forgeries import MODULE, forge, forgeries

ROOT = Path(__file__).resolve().parents[1]
KUHN = ("--env", "mage/KuhnPoker-Meta-v0", "--no-baselines")
COMMANDS = {
    "validate": lambda run, sound, out: ["verify", run],
    "leaderboard": lambda run, sound, out: ["compare", run, "--page", f"{out}.md"],
    "attest": lambda run, sound, out: ["verify", "--challenge", run],
    "replay": lambda run, sound, out: ["verify", "--replay", run],
    "report": lambda run, sound, out: ["report", run, "--sample", "2", "--out", out],
    "compare": lambda run, sound, out: ["compare", sound, run],
    "export": lambda run, sound, out: ["export", run, "--to", "csv", "--out", out],
    "markdown": lambda run, sound, out: ["export", run, "--to", "markdown"],
    "regret": lambda run, sound, out: ["regret", run],
    "eval": lambda run, sound, out: [
        *("eval", "scripted:first", *KUHN, "--opponents", "kuhn/nash,kuhn/aggressive", "--rows", "1"),
        *("--control", "other", "--from", run),
    ],
}


@pytest.fixture(scope="module")
def server():
    """Yield a socket that counts connections."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        opened.setblocking(False)
        yield opened


@pytest.fixture(scope="module")
def untrusted_runs(tmp_path_factory, server):
    """Return a folder, a sound run, and forged runs by name."""
    folder = tmp_path_factory.mktemp("untrusted")
    sound, outside = folder / "sound", folder / "outside"
    assert (
        main(
            [
                "eval",
                "scripted:random",
                *KUHN,
                "--opponents",
                "kuhn/nash,kuhn/aggressive",
                "--rows",
                "1",
                "--out",
                str(sound),
            ]
        )
        == 0
    )
    (outside / "model").mkdir(parents=True)
    (outside / "secret.txt").write_text("a secret\n")
    (outside / "run.json").write_text((sound / "run.json").read_text())
    (outside / "model" / "mage.json").write_text(json.dumps({"env_id": "mage/KuhnPoker-Meta-v0", "imports": [MODULE]}))
    (folder / f"{MODULE}.py").write_text(f"open({str(outside / 'PWNED')!r}, 'w')\n")
    # The shop is made before the commands run, because on a slow machine that prints its progress.
    warm = "import gymnasium, mage_envs; gymnasium.make('mage/WebShop-v0').reset(seed=0)"
    environment = os.environ | {"MAGE_ENVS_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", warm], env=environment, check=True, capture_output=True, timeout=200)
    changes = forgeries(outside, f"http://127.0.0.1:{server.getsockname()[1]}")
    assert len(changes) >= 40
    return folder, sound, {name: forge(sound, folder / "forged" / name, change) for name, change in changes.items()}


def faults(command, run, report):
    """Yield the faults of a command at one folder."""
    yield from report["events"]
    if report["status"] not in (0, 1, 2, 3):
        yield f"status {report['status']}"
    if report["status"] == 2 and (report["err"].count("\n") != 1 or str(run) not in report["err"]):
        yield f"an error that is not one line with the folder's name: {report['err']}"
    printed = report["out"] + report["err"]
    if hidden := {
        character
        for character in printed
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs")
    }:
        yield f"hidden characters {hidden}"
    # Markdown has whole replies, line ends included, inside fences.
    if "\nFAKE ROW" in printed and command != "markdown":
        yield "a name with a line end began a line"


@pytest.mark.parametrize("command", mark_params(COMMANDS, step=3))
def test_no_command_executes_what_a_record_says(untrusted_runs, server, tmp_path, command):
    folder, sound, runs = untrusted_runs
    out = tmp_path / "out.txt"
    words = [COMMANDS[command](str(run), str(sound), str(out)) for run in (sound, *runs.values())]
    allowed = [str(folder / "forged"), str(folder / "cache"), str(sound), str(tmp_path)]
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"commands": words, "allowed": allowed, "out": str(tmp_path / "report.json")}))
    # The current folder is searched for modules, as a console script does, so the stranger's module could be found.
    environment = os.environ | {"MAGE_ENVS_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-m", "tests.untrusted.audited", str(job)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    first_report, *report = json.loads((tmp_path / "report.json").read_text())
    assert first_report["status"] == 0, first_report["err"]
    assert first_report["events"] == []
    wrong = {
        name: list(faults(command, runs[name], faults_found)) for name, faults_found in zip(runs, report, strict=True)
    }
    assert {name: faults_found for name, faults_found in wrong.items() if faults_found} == {}
    assert not (folder / "outside" / "PWNED").exists()
    with pytest.raises(BlockingIOError):
        server.accept()
