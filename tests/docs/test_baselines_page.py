"""The commands of docs/baselines.md, one after another in an empty folder, as they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from tests.programs import train
from tests.test_readme import ROOT, SHELL, blocks

PROGRAMS = {"mage": main, "mage train": train}
SAYS = [
    "scripted:random in mage/KuhnPoker",
    "memory: memento",
    "8 meta-episodes of sokoban-train",
    "mage/Sokoban-Meta-v0",
]


def test_the_commands_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = [block for block in blocks(ROOT / "docs" / "baselines.md") if block.language in SHELL]
    commands = [line for block in page for line in block.text.splitlines()]
    assert len(commands) == len(SAYS)
    for command, says in zip(commands, SAYS, strict=True):
        program, *words = shlex.split(command)
        assert PROGRAMS[program](words) == 0, capsys.readouterr().err
        assert says in capsys.readouterr().out
