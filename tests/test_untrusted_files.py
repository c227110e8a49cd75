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
    """The address of a socket that counts who connects."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        opened.setblocking(False)
        yield opened


@pytest.fixture(scope="module")
def forged(tmp_path_factory, server):
    """The folder of all forged runs, and a sound one."""
    place = tmp_path_factory.mktemp("untrusted")
    sound, outside = place / "sound", place / "outside"
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
    (place / f"{MODULE}.py").write_text(f"open({str(outside / 'PWNED')!r}, 'w')\n")
    # The shop is made before the commands run, because on a slow machine that prints its progress.
    warm = "import gymnasium, mage_envs; gymnasium.make('mage/WebShop-v0').reset(seed=0)"
    made = os.environ | {"MAGE_ENVS_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", warm], env=made, check=True, capture_output=True, timeout=200)
    changes = forgeries(outside, f"http://127.0.0.1:{server.getsockname()[1]}")
    assert len(changes) >= 40
    return place, sound, {name: forge(sound, place / "forged" / name, change) for name, change in changes.items()}


def faults(command, run, found):
    """Yield what a command did wrong at one folder."""
    yield from found["events"]
    if found["status"] not in (0, 1, 2, 3):
        yield f"status {found['status']}"
    if found["status"] == 2 and (found["err"].count("\n") != 1 or str(run) not in found["err"]):
        yield f"an error that is not one line with the folder's name: {found['err']}"
    printed = found["out"] + found["err"]
    if hidden := {one for one in printed if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs")}:
        yield f"hidden characters {hidden}"
    # Markdown has whole replies, line ends included, inside fences.
    if "\nFAKE ROW" in printed and command != "markdown":
        yield "a name with a line end began a line"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_executes_what_a_record_says(forged, server, tmp_path, command):
    place, sound, runs = forged
    out = tmp_path / "out.txt"
    words = [COMMANDS[command](str(run), str(sound), str(out)) for run in (sound, *runs.values())]
    allowed = [str(place / "forged"), str(place / "cache"), str(sound), str(tmp_path)]
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"commands": words, "allowed": allowed, "out": str(tmp_path / "report.json")}))
    # The current folder is searched for modules, as a console script does, so the stranger's module could be found.
    environment = os.environ | {"MAGE_ENVS_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.untrusted.audited", str(job)],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, *report = json.loads((tmp_path / "report.json").read_text())
    assert first["status"] == 0, first["err"]
    assert first["events"] == []
    wrong = {name: list(faults(command, runs[name], found)) for name, found in zip(runs, report, strict=True)}
    assert {name: found for name, found in wrong.items() if found} == {}
    assert not (place / "outside" / "PWNED").exists()
    with pytest.raises(BlockingIOError):
        server.accept()
