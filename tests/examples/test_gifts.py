"""`examples.gifts`: a game with roles, opponents, a memory, a reward and a record in one file, by `--import` alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mage_envs.files.cache import VARIABLE
from tests.docs.fork_server import call_mage
from tests.processes import ROOT, run_python

PROGRAM = "import sys; from mage_envs.cli.program import mage; sys.exit(mage())"


def mage(command: str, folder: Path) -> str:
    """Standard output of a command in a process of its own, because the registries are global."""
    process = run_python("-c", PROGRAM, *shlex.split(command), "--import", "examples.gifts", folder=folder)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path


def test_its_headroom_is_that_of_two_likely_preferences(folder: Path) -> None:
    values = json.loads(mage("headroom Gifts --json", folder))
    assert values["blind"] == pytest.approx(0.5)
    assert values["per_episode"]["myopic"] == pytest.approx([0.5, 0.82, 0.82])
    # After the first answer the learner is right with probability .9: .9 * .9 + .1 * .1.
    assert values["per_episode"]["sum"] == pytest.approx([0.5, 0.82, 0.82])
    assert values["known"] == pytest.approx(0.9)


@pytest.mark.more
def test_its_panel_memory_and_preset_work_by_their_names(folder: Path) -> None:
    memory = "--memory examples.gifts:Liked --out run"
    mage(f"eval policy:bayes:gifts/hidden --panel gifts-hidden-128 {memory}", folder)
    about = json.loads((folder / "run" / "run.json").read_text())
    assert about["setting"]["options"]["memory"] == "examples.gifts:Liked"
    summary = json.loads((folder / "run" / "summary.json").read_text())
    means = [episode["returns"]["estimate"]["mean"] for episode in summary["overall"]["episodes"]]
    # Exactly .5, .82 and .82, here with the luck of 128 answers.
    assert means == pytest.approx([0.5, 0.82, 0.82], abs=0.12)
    assert mage("verify run --replay", folder).endswith("all as recorded\n")
    # In a fork, which has loaded torch.
    output = call_mage("mage train --preset mage-gifts --model tiny --dry-run --import examples.gifts", folder).stdout
    assert "\nopponents:\n" in output
    assert "Choose a gift." in output
    assert "gifts-hidden-128" in mage("list panels", folder)
