"""docs/hardware.md: every command resolves as printed; those of the CPU run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import mage_envs.cli.program
from mage_envs.trainer.config.hardware import hardware_names
from tests.programs import train as main
from tests.test_readme import blocks

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"
LINES = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
TRAINING = [line for line in LINES if line.startswith("mage train")]


def test_every_kind_has_its_section() -> None:
    text = PAGE.read_text()
    assert [name for name in hardware_names() if f"\n## {name}\n" not in text] == []


@pytest.mark.parametrize("line", [line for line in TRAINING if "--hardware cpu" not in line])
def test_a_command_resolves(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)[2:]
    assert main([word for word in words if word != "--dry-run"] + ["--dry-run"]) == 0
    assert "peak_in_an_update" in capsys.readouterr().out


@pytest.mark.more
def test_the_cpu_s_commands_run_from_nothing_to_a_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train, evaluate = (shlex.split(line) for line in LINES if "runs/cpu" in line)
    assert main(train[2:]) == 0
    assert Path("runs/cpu/training.png").exists()
    assert mage_envs.cli.program.main(evaluate[1:]) == 0
    assert "knows the opponent" in capsys.readouterr().out
