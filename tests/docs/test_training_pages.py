"""docs/training.md, long-runs.md and backends.md: every `mage train` command resolves as printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.programs import train as main
from tests.test_readme import ROOT, SHELL, blocks

PAGES = [block for name in ("training", "long-runs", "backends") for block in blocks(ROOT / "docs" / f"{name}.md")]
COMMANDS = [
    line
    for block in PAGES
    if block.language in SHELL
    for line in block.text.splitlines()
    # --resume needs a run; tests of interruptions resume real ones. A sweep has no dry run; tests of sweeps train one.
    if line.startswith("mage train") and "--resume " not in line and "--sweep" not in line
]


def test_the_pages_have_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_resolves(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command, comments=True)[2:]
    assert main([word for word in words if word != "--dry-run"] + ["--dry-run"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith("environment:\n")
