"""A missing engine costs one row, and a missing extra one line with the command that installs it: never a command."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from dev.versions import EVERY_COMMAND, ROOT, FreshInstall, call_every_command, clean
from mage_envs.cli.program import COMMANDS
from mage_envs.loading.extras import EXTRAS
from tests.packages import mark_params

HIDING = ROOT / "tests" / "hiding"
ENGINE = ("alfworld", "textworld", "fast_downward")
NO_EXTRAS = (*EXTRAS, *ENGINE)
DISTRIBUTIONS = {"pyyaml": "yaml", "pygame_ce": "pygame", "inspect_ai": "inspect_ai"}
"""Distribution to its module, if the names differ by more than a hyphen."""


def install_without(modules: Sequence[str], folder: Path) -> FreshInstall:
    """Return an environment whose `mage` is that of this one, with some modules hidden."""
    program = folder / "bin" / "mage"
    program.parent.mkdir()
    variables = f"PYTHONPATH={HIDING}:{ROOT} HIDDEN_MODULES={','.join(modules)}"
    call = f'exec {sys.executable} -c "from mage_envs.cli import program; raise SystemExit(program.mage())"'
    program.write_text(f'#!/bin/sh\n{variables} {call} "$@"\n')
    program.chmod(0o755)
    return FreshInstall(folder, 0.0, 0.0)


def call_mage(environment: FreshInstall, *words: str) -> tuple[int, str, str]:
    """Call a command. Return its exit status, output and errors."""
    process = subprocess.run(
        [environment.folder / "bin" / "mage", *words],
        cwd=environment.folder,
        capture_output=True,
        text=True,
        check=False,
        env=clean(),
        stdin=subprocess.DEVNULL,
    )
    return process.returncode, process.stdout, process.stderr


def test_every_command_has_a_call() -> None:
    assert EVERY_COMMAND.keys() == COMMANDS.keys()


@pytest.mark.more
@pytest.mark.timeout(600)
def test_every_command_runs_without_alfworld(tmp_path: Path) -> None:
    call_every_command(install_without(ENGINE, tmp_path), long=False)


@pytest.mark.parametrize("module", ENGINE)
def test_a_row_of_a_missing_engine_names_the_extra(module: str, tmp_path: Path) -> None:
    environment = install_without([module], tmp_path)
    status, out, _ = call_mage(environment, "list", "ALFWorldHouse")
    assert status == 0
    assert "n/a: ALFWorld requires" in out
    assert 'mage-envs[alfworld]"' in "".join(out.split("\n  "))


def test_the_table_of_all_games_has_a_row_for_the_missing_engine(tmp_path: Path) -> None:
    script = """
from mage_envs.benchmarks.exact.headroom_table import Setup, blocks, row_line, solve_rows
from mage_envs.cli.tables import as_text

setups = [Setup(game="ALFWorldHouse", pool="house/all"), Setup(game="ALFWorld", pool="", panel="alfworld-eval-in-16")]
rows = list(solve_rows(lambda *_: None, [*setups, Setup(game="Ultimatum", pool="ultimatum/reserves")]))
print(*map(row_line, rows), sep="\\n")
print(as_text(blocks(rows)))
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**clean(), "PYTHONPATH": f"{HIDING}:{ROOT}", "HIDDEN_MODULES": ",".join(ENGINE)},
    )
    house, household, ultimatum = process.stdout.splitlines()[:3]
    assert house.startswith("ALFWorldHouse: house/all: n/a, ALFWorld requires ")
    assert household.startswith("ALFWorld: alfworld-eval-in-16: n/a, ALFWorld requires ")
    assert re.fullmatch(r"Ultimatum: ultimatum/reserves: adaptation [\d.]+, reachable .*", ultimatum)
    assert re.search(r"^ALFWorldHouse: house/all +(n/a +){4}n/a$", process.stdout, re.MULTILINE)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_no_help_needs_an_extra(tmp_path: Path) -> None:
    environment = install_without(NO_EXTRAS, tmp_path)
    for name in COMMANDS:
        status, out, err = call_mage(environment, name, "--help")
        assert (status, err) == (0, ""), name
        assert "Usage: mage" in out, name


@pytest.mark.parametrize(
    ("words", "extra"),
    mark_params(
        [
            ("train --preset mage-kuhn --dry-run", "train"),
            ("paper table1 --dry-run --quick", "train"),
            ("train --sweep plan.yaml", "train"),
            ("demo", "train,report"),
            ("play --browser --port 0", "arena"),
            ("serve webshop --port 0", "webshop"),
            ("report run", "report"),
            ("headroom KuhnPoker --plot values.png", "report"),
            ("eval rows.yaml --suite paper-table1 --quick --out suite", "records"),
            ("tournament KuhnPoker --opponents uniform,kuhn/nash --games 20", "tournament"),
            ("eval llm:model@http://localhost:1/v1 --panel kuhn-paper-128", "endpoints"),
            ("doctor hf:smollm2", "train"),
            ("play mage/ALFWorld-v0", "alfworld"),
        ],
        step=3,
    ),
)
def test_a_missing_extra_is_one_line_with_its_command(words: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("{}")
    status, _, err = call_mage(install_without(NO_EXTRAS, tmp_path), *words.split())
    assert status == 2
    assert f'pip install "mage-envs[{extra}]"' in err.splitlines()[-1]
    assert "No module named" not in err
    assert "Traceback" not in err


def test_the_table_of_extras_is_that_of_the_distribution() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= extras.keys()
    for module, extra in EXTRAS.items():
        names = {re.split(r"[\[>=<;]", requirement)[0].strip().replace("-", "_") for requirement in extras[extra]}
        brought = {DISTRIBUTIONS.get(name, name) for name in names}
        assert module in brought or module in DEPENDENCIES, f"{extra} does not install {module}"


DEPENDENCIES = ("huggingface_hub", "safetensors", "tokenizers", "werkzeug", "yaml", "scipy")
"""Modules that an extra installs through another package: transformers, flask and choix."""
