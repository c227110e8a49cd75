"""Another module of a sibling's name, earlier on the path, stops the import with one line that names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mage_envs import _siblings

ROOT = Path(__file__).parent.parent
NAMES = ("opponents", "wrappers", "trainer", "benchmarks")


def python(code: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a process that finds modules along `path`."""
    environment = {"PYTHONPATH": ":".join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


def test_the_normal_import_works(tmp_path: Path) -> None:
    done = python("import mage_envs, opponents; print(opponents.__file__)", ROOT, tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).parent.parent == ROOT


@pytest.mark.parametrize("name", NAMES)
def test_a_users_own_module_is_named(name: str, tmp_path: Path) -> None:
    intruder = tmp_path / f"{name}.py"
    intruder.write_text("raise SystemExit('the intruder must not run')\n")
    line = last_line(python("import mage_envs", tmp_path, ROOT, cwd=tmp_path))
    assert line.startswith(f"ImportError: {intruder} hides the package {name!r} of mage-envs ({ROOT / name}).")
    assert "Rename that file" in line


@pytest.mark.parametrize("name", NAMES)
def test_an_installed_distribution_is_named(name: str, tmp_path: Path) -> None:
    package = tmp_path / "site" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    line = last_line(python("import mage_envs", tmp_path / "site", ROOT, cwd=tmp_path))
    assert line.startswith(f"ImportError: {package / '__init__.py'} hides the package {name!r}")
    assert "uninstall that distribution" in line


def test_one_that_is_loaded_already_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrappers.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import wrappers; sys.path.pop(0); import mage_envs"
    assert f"{tmp_path / 'wrappers.py'} hides the package 'wrappers'" in last_line(python(code, ROOT, cwd=tmp_path))


def test_later_on_the_path_is_no_intruder(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("")
    (tmp_path / "folder" / "benchmarks").mkdir(parents=True)  # no package: a folder of results, say
    assert python("import mage_envs", tmp_path / "folder", ROOT, tmp_path, cwd=tmp_path).returncode == 0


def test_a_sibling_that_is_not_installed_is_no_error(tmp_path: Path) -> None:
    _siblings.check(tmp_path)
    _siblings.check(ROOT)
