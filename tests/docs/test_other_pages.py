"""Commands of pages without a test of their own, as they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from tests.test_readme import ROOT, SHELL, blocks

NAMES = ("environments", "opponents", "webshop")
LEFT_OUT = (
    # Needs the demo's model.
    "mage exploit model:runs/demo",
    # Trains for hours; tests/docs/test_training_pages.py resolves such commands.
    "mage train",
    # Need the original's data, or serve until they are stopped.
    "mage doctor webshop:path",
    "mage serve",
)
COMMANDS = [
    line
    for name in NAMES
    for block in blocks(ROOT / "docs" / f"{name}.md")
    if block.language in SHELL
    for line in block.text.splitlines()
    if line.startswith("mage ") and not line.startswith(LEFT_OUT)
]


def test_each_page_has_a_command() -> None:
    assert len(COMMANDS) >= len(NAMES)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_as_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
