"""The pages on own parts as a newcomer walks through them: an empty folder, their files, each command as printed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mage_envs.cli.program import main
from mage_envs.loading import imports
from tests.docs.fork_server import call_mage
from tests.packages import mark_params
from tests.programs import train
from tests.test_readme import ROOT, SHELL, blocks, mark_value

NAMES = ("extending", "own-environment", "own-memory", "own-training")
PAGES = [block for name in NAMES for block in blocks(ROOT / "docs" / f"{name}.md")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the pages, and the console script, which does not search the current folder by itself."""
    newcomer_folder = tmp_path_factory.mktemp("newcomer")
    for block in PAGES:
        if name := mark_value(block, "file"):
            (newcomer_folder / name).write_text(block.text + "\n")
    (newcomer_folder / "bin").mkdir()
    program = newcomer_folder / "bin" / "mage"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m mage_envs "$@"\n')
    program.chmod(0o755)
    return newcomer_folder


def shell(command: str, folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        ["sh", "-c", command], input=typed, capture_output=True, text=True, env=environment, cwd=folder, timeout=250
    )


Run = Callable[[str, Path, str], "subprocess.CompletedProcess[str]"]
RUN_IN_A_SHELL = (0, 1)
"""Blocks whose commands start as a reader's do. All others need torch."""
KEPT_IMPORTS = {
    3: [("wfw/mage.json", "my_games"), ("wfw/cup/settings.json", "my_games")],
    4: [("guess/mage.json", "my_guess")],
}
"""Files that name the module they need, by the number of the block whose commands write them."""


@pytest.mark.parametrize(
    ("number", "says"),
    mark_params(
        [
            (0, ["processes         3", "fuzz      20"]),
            (
                1,
                [
                    "wfw/always  wfw/cycle",
                    "Opponent: wfw/cycle. Total:",
                    "reachable headroom 0.600",
                    "WaterFireWood: value of the best response",
                ],
            ),
            (
                2,
                [
                    "policy:bayes:wfw/hidden,3,1 in mage/WaterFireWood-Meta-v0",
                    "policy:my_games:Cycle in mage/WaterFireWood-Meta-v0",
                    "episode 3  +0.600 [+0.600, +0.600]",
                ],
            ),
            (
                3,
                [
                    "the model is in runs/wfw.",
                    "model:runs/wfw in mage/WaterFireWood-Meta-v0",
                    "NashConv",
                    "Opponent: checkpoint:runs/wfw.",
                    "checkpoint:runs/wfw",
                ],
            ),
            (4, ["the model is in runs/guess.", "model:runs/guess in my/Guess-Meta-v0"]),
            (5, ["scripted:random in mage/KuhnPoker-Meta-v0"]),
            (6, ["the model is in runs/parts."]),
        ],
        step=2,
    ),
)
def test_the_commands_run_as_printed(number: int, says: list[str], folder: Path) -> None:
    block = [block for block in PAGES if block.language in SHELL][number]
    commands = block.text.replace("\\\n", " ").splitlines()
    assert len(commands) == len(says)
    for command, expected in zip(commands, says, strict=True):
        run = shell if number in RUN_IN_A_SHELL else call_mage
        process = run(command, folder, f"{mark_value(block, 'typed')}\n")
        assert process.returncode == 0, f"{command}: {process.stderr}"
        assert expected in process.stdout, command
    for path, module in KEPT_IMPORTS.get(number, ()):
        assert json.loads((folder / "runs" / path).read_text())["imports"] == [module]


COWARD = """
from mage_envs import register_opponent


@register_opponent("kuhn/coward", games=["KuhnPoker"])
class Coward:
    def reset(self, rng): ...
    def act(self, turn): return turn.legal_actions[0]
"""
TRAINING = (
    "mage train --model tiny --import my_opponents --opponents kuhn/coward --output_dir runs/coward --save_steps 1 "
    "--use_cpu true --groups_per_rollout 1 --num_generations 2 --max_completion_length 4 --updates_per_rollout 1"
)


@pytest.fixture
def coward(folder: Path) -> Path:
    (folder / "my_opponents.py").write_text(COWARD)
    return folder


@pytest.mark.parametrize(
    ("run", "command"),
    mark_params(
        [
            (shell, "mage play mage/KuhnPoker-v0 --opponents my_opponents:Coward --hands 1"),
            (call_mage, "mage play mage/KuhnPoker-v0 --opponents kuhn/coward --import my_opponents --hands 1"),
            (
                call_mage,
                "mage eval scripted:first --env mage/KuhnPoker-Meta-v0 --opponents my_opponents:Coward --rows 2",
            ),
            (call_mage, "mage eval policy:kuhn/coward --import my_opponents --env mage/KuhnPoker-Meta-v0 --rows 2"),
            (shell, "mage tournament KuhnPoker --import my_opponents --games 2 --opponents kuhn/coward,uniform"),
            (
                call_mage,
                "mage tournament KuhnPoker --opponents my_opponents:Coward,cfr --games 2 --executor local --out c",
            ),
        ],
        step=2,
    ),
)
def test_opponents_of_the_current_folder_are_found(run: Run, command: str, coward: Path) -> None:
    process = run(command, coward, "bet\ncheck\ncall\n")
    assert process.returncode == 0, process.stderr
    assert "oward" in process.stdout


def test_a_checkpoint_is_resumed_with_the_module_that_it_needs(coward: Path) -> None:
    process = call_mage(f"{TRAINING} --max_rollouts 1", coward)
    assert "Finished after 1 updates" in process.stdout, process.stderr
    model_record = coward / "runs" / "coward" / "checkpoint-1" / "mage.json"
    assert json.loads(model_record.read_text())["imports"] == ["my_opponents"]
    without = TRAINING.replace("--import my_opponents ", "") + " --max_rollouts 2 --resume"
    needs = "mage.json needs the module 'my_opponents'. Check it, then add --import my_opponents."
    assert needs in call_mage(without, coward).stderr
    process = call_mage(f"{TRAINING} --max_rollouts 2 --resume", coward)
    assert "Finished after 2 updates" in process.stdout, process.stderr


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (main, "play mage/KuhnPoker-v0 --opponents my_oponents:Coward"),
        (main, "play my_oponents:mage/KuhnPoker-v0"),
        (main, "list --import my_oponents"),
        (main, "tournament KuhnPoker --opponents my_oponents:Coward,uniform"),
        (main, "headroom my_oponents:KuhnPoker"),
        (train, "--preset mage-kuhn --dry-run --import my_oponents"),
        (train, "--preset mage-kuhn --dry-run --env_id my_oponents:mage/KuhnPoker-Meta-v0"),
        (train, "--preset mage-kuhn --dry-run --opponents my_oponents:Coward"),
        (train, "--preset mage-kuhn --dry-run --memory my_oponents:Memory"),
    ],
)
def test_a_module_that_is_not_there_is_one_line_that_says_where_it_was_looked_for(
    program: Any, arguments: str, coward: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(coward)
    assert program(shlex.split(arguments)) == 2
    written = capsys.readouterr()
    assert written.out == ""
    [line] = written.err.splitlines()
    assert "no module 'my_oponents'" in line
    assert "Searched: the installed packages" in line
    assert str(coward) in line


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "broken_import",
            "import no_such_package\n",
            "'broken_import' imports 'no_such_package', which is not installed",
        ),
        ("my-opponents", None, "'my-opponents' is not a module name"),
        ("broken_import.part", None, "no module 'broken_import.part'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(
    name: str, text: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_import.py").write_text(text or "")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(imports, "_IMPORTED", [])
    with pytest.raises(ImportError) as error:
        imports.load_modules([name])
    assert says in str(error.value)
    sys.modules.pop("broken_import", None)


def test_modules_of_the_current_folder_come_last(coward: Path) -> None:
    for name in ("trainer.py", "opponents.py", "wrappers.py", "benchmarks.py", "torch.py"):
        (coward / name).write_text("raise SystemExit('the wrong module')\n")
    try:
        process = shell("mage play mage/KuhnPoker-v0 --opponents my_opponents:Coward --hands 1", coward, "bet\nbet\n")
        assert process.returncode == 0, process.stderr
    finally:
        for name in ("trainer.py", "opponents.py", "wrappers.py", "benchmarks.py", "torch.py"):
            (coward / name).unlink()
