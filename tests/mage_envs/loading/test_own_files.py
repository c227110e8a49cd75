"""A user's file with the name of another module is never replaced in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import mark_params
from tests.processes import ROOT, run_python

OPPONENT = """
from mage_envs import register_opponent

@register_opponent("my/coward", games=["KuhnPoker"])
class Coward:
    def reset(self, rng):
        pass

    def act(self, turn):
        return turn.legal_actions[0]
"""
# As the console script, which does not search the current folder first.
PROGRAM = "import sys; sys.path.pop(0); from mage_envs.cli import program; sys.exit(program.main())"


def list_with(folder: Path, module: str) -> tuple[int, str, str]:
    """Run `mage list KuhnPoker --import MODULE` in a folder; return its status and output."""
    process = run_python("-c", PROGRAM, "list", "KuhnPoker", "--import", module, folder=folder)
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize("name", ["mage_envs", "numpy", "code"])
def test_a_hidden_file_is_named_with_the_one_that_hides_it(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(OPPONENT)
    status, out, error = list_with(tmp_path, name)
    assert status == 2, out
    assert f" hides your {tmp_path / name}.py, because both are called '{name}'. Rename yours." in error


@pytest.mark.parametrize("name", ["typer.extra", "mage_envs.mine"])
def test_a_hidden_module_of_a_folder_too(tmp_path: Path, name: str) -> None:
    path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir()
    path.write_text(OPPONENT)
    status, _, error = list_with(tmp_path, name)
    assert status == 2
    assert f" hides your {path}, because both are called '{path.parent.name}'" in error


@pytest.mark.parametrize("name", mark_params(["opponents", "wrappers", "trainer", "benchmarks"], step=2))
@pytest.mark.parametrize("is_clone", [False, True])
def test_a_package_of_ours_is_not_a_module_of_the_user(tmp_path: Path, name: str, is_clone: bool) -> None:
    status, _, error = list_with(ROOT if is_clone else tmp_path, name)
    assert status == 2
    assert f"mage: --import: '{name}' is a package of mage-envs itself. Pass a module of your own." in error


@pytest.mark.parametrize("name", ["mine", "sub.mine", "package", "opponents", "trainer.extra", "benchmarks"])
def test_other_names_are_found(tmp_path: Path, name: str) -> None:
    path = tmp_path.joinpath(*name.split("."))
    path = path / "__init__.py" if name == "package" else path.with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    if name == "trainer.extra":
        # A folder without it is searched after all packages, so that of a clone would hide it.
        (path.parent / "__init__.py").write_text("")
    path.write_text(OPPONENT)
    status, out, error = list_with(tmp_path, name)
    assert status == 0, error
    assert "my/coward" in out
