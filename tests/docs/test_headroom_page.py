"""The commands of docs/headroom.md run as printed. Its experiments have tests of their own."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from tests.test_readme import ROOT, SHELL, blocks

PAGE = blocks(ROOT / "docs" / "headroom.md")
EXPERIMENTS = ("make demo-objectives", "python -m examples.objectives")


@pytest.mark.more
def test_the_commands_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in PAGE if block.language in SHELL for line in block.text.splitlines()]
    commands = [line for line in lines if not line.startswith(EXPERIMENTS)]
    assert len(commands) == 14
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "mage"
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr().out


def test_the_python_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(block.text for block in PAGE if block.language == "python")
    exec(compile(code, "headroom.md", "exec"), {})
    values, sums = capsys.readouterr().out.splitlines()
    assert [float(value) for value in values.split()] == pytest.approx([0.125, 0.275, 0.15, 0.111, 0.0065], abs=5e-4)
    assert len(sums.split(",")) == 3
