"""The commands that a training prints at its end run as they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage_envs.loading import imports
from mage_envs.trainer.runs.summary import RunLength, commands
from tests.docs.fork_server import call_mage
from tests.processes import ROOT
from tests.programs import train as main
from tests.test_readme import blocks, mark_value
from tests.trainer.tiny_runs import TINY, flags

SMALL = flags(groups_per_rollout=1, updates_per_rollout=1, num_episodes=2)
KUHN = ("--preset", "mage-kuhn", *TINY, *SMALL)
WORDS = ("--model", "words", "--env_id", "mage/Ultimatum-Meta-v0", *SMALL, "--num_generations", "2")


@pytest.fixture(autouse=True)
def _no_modules_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "_IMPORTED", [])


def next_steps(printed: str) -> dict[str, list[str]]:
    """The words of each printed command by its label."""
    lines = [line.partition(": ") for line in printed.splitlines() if ": " in line]
    return {label: shlex.split(command) for label, _, command in lines if command.strip().startswith("mage ")}


@pytest.mark.parametrize(
    "arguments",
    [
        (*WORDS, "--max_rollouts=1", "--save_steps", "1"),
        (*KUHN, "--max_steps", "1", "--memory", "my_memory:Results", "--log_transcripts", "1"),
    ],
    ids=["words", "memory"],
)
def test_each_runs(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Each command runs in a fork, which knows no module that an earlier command imported."""
    [memory] = [b.text for b in blocks(ROOT / "docs" / "own-memory.md") if mark_value(b, "file") == "my_memory.py"]
    (tmp_path / "my_memory.py").write_text(memory + "\n")
    folder = "a run"
    process = call_mage(shlex.join(["mage", "train", *arguments, "--output_dir", folder]), tmp_path)
    assert process.returncode == 0, process.stderr
    steps = next_steps(process.stdout)
    assert list(steps) == ["Evaluate it", "Play against it", "Read transcripts", "Train it further"]
    steps["Evaluate it"] += ["--rows", "1"]
    for words in steps.values():
        process = call_mage(shlex.join(words), tmp_path, "quit\n")
        assert process.returncode == 0, (words, process.stdout, process.stderr)
    rollouts = (tmp_path / folder / "metrics.jsonl").read_text().count('"kind": "rollout"')
    assert rollouts == 2


def test_a_run_without_a_checkpoint_names_no_command_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*KUHN, "--max_rollouts", "1", "--output_dir", str(tmp_path / "run"), "--save_strategy", "no"]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "--resume" not in output
    assert "It cannot be resumed, because it has no checkpoint." in output


def test_an_interrupted_run_keeps_its_length(tmp_path: Path) -> None:
    arguments = ["--preset", "mage-kuhn", "--max_rollouts", "9", "--resume-if-any"]
    interrupted = RunLength(9, 0, interrupted=True)
    assert "--resume" not in commands(tmp_path, None, arguments, interrupted, False)
    (tmp_path / "checkpoint-4").mkdir()
    output = commands(tmp_path, None, arguments, interrupted, False)
    assert output == "Continue it:      mage train --preset mage-kuhn --max_rollouts 9 --resume\n"


@pytest.mark.parametrize(
    ("arguments", "length", "ends"),
    [
        (["--max_rollouts", "2"], RunLength(2, 8), "mage train --max_rollouts 4 --resume"),
        (["--max_rollouts=2", "--seed", "1"], RunLength(2, 8), "mage train --seed 1 --max_rollouts 4 --resume"),
        (["--max_steps", "8"], RunLength(None, 8), "mage train --max_steps 16 --resume"),
        (["--max_steps", "8", "--max_rollouts", "4", "--resume"], RunLength(4, 8), "train --max_rollouts 8 --resume"),
        (["--max_steps", "8", "--max_rollouts", "9"], RunLength(None, 8), "--max_rollouts 9 --max_steps 16 --resume"),
    ],
)
def test_a_longer_run_has_twice_the_length(arguments: list[str], length: RunLength, ends: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-8").mkdir()
    assert commands(tmp_path, None, arguments, length, False).rstrip().endswith(ends)
