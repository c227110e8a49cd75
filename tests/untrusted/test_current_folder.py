"""The current folder may be a stranger's: its modules run only if the user names one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHADOWS = ("cython", "brotli", "h2", "tabulate", "sklearn", "matplotlib", "yaml", "pickle", "struct", "multiprocessing")
"""Modules that a library or a new interpreter imports, with or without them installed."""


def run_program(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a folder like a console script, whose folder is not on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-c", f"import sys; sys.path[0] = {str(ROOT)!r}\n{code}"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """Return a folder whose every module and plug-in leaves the file PWNED."""
    folder, write = tmp_path / "stranger", f"open({str(tmp_path / 'PWNED')!r}, 'w').close()\n"
    about = folder / "evil-1.dist-info"
    about.mkdir(parents=True)
    for name in (*SHADOWS, "evilmod"):
        (folder / f"{name}.py").write_text(write)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    groups = ("pydantic", "mage_envs.opponents", "mage_envs.games", "mage_envs.memories", "gymnasium.envs")
    (about / "entry_points.txt").write_text("".join(f"[{group}]\nevil = evilmod\n" for group in groups))
    return folder


@pytest.mark.parametrize("words", [["list"], ["verify", "."], ["play", "mage/KuhnPoker-v0", "--opponents", "kuhn/no"]])
def test_a_command_imports_nothing_from_the_current_folder(words: list[str], stranger: Path) -> None:
    code = f"from mage_envs.cli.program import mage; sys.argv = {['mage', *words]!r}; sys.exit(mage())"
    process = run_program(stranger, code)
    assert process.returncode in (0, 2), process.stderr
    assert not (stranger.parent / "PWNED").exists()


def test_a_worker_process_imports_nothing_from_the_current_folder(stranger: Path) -> None:
    code = """
if __name__ == "__main__":
    from mage_envs.cli.program import mage
    sys.argv = ["mage", "--version"]
    mage()
    import math
    import multiprocessing
    process = multiprocessing.get_context("spawn").Process(target=math.sqrt, args=(2,))
    process.start()
    process.join(60)
    sys.exit(process.exitcode)
"""
    process = run_program(stranger, code)
    assert process.returncode == 0, process.stderr
    assert not (stranger.parent / "PWNED").exists()


def test_the_current_folder_is_searched_for_a_named_module_only(tmp_path: Path) -> None:
    (tmp_path / "my_named.py").write_text("import my_beside\n")
    (tmp_path / "my_beside.py").write_text("")
    code = """
from mage_envs.loading.imports import load_modules, load_registered
path = list(sys.path)
load_modules(["my_named"])
assert sys.path == path and "my_beside" in sys.modules
# The named module may have registered an entry point of another module in its folder.
open("my_registered.py", "w").close()
load_registered("my_registered")
assert sys.path == path
"""
    process = run_program(tmp_path, code)
    assert process.returncode == 0, process.stderr


def test_no_registered_module_is_searched_in_the_current_folder_unless_the_user_named_one(tmp_path: Path) -> None:
    (tmp_path / "not_named.py").write_text("")
    process = run_program(
        tmp_path, "from mage_envs.loading.imports import load_registered\nload_registered('not_named')"
    )
    assert "ModuleNotFoundError: No module named 'not_named'" in process.stderr
