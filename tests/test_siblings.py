"""Modules of a sibling's name, earlier on the path: `import mage_envs` works beside them, and only what needs the
hidden package refuses, in one line that names the intruder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mage_envs.loading import siblings

ROOT = Path(__file__).parent.parent
NAMES = ("opponents", "wrappers", "trainer", "benchmarks")
MAKE = "import gymnasium, mage_envs; gymnasium.make('mage/KuhnPoker-v0')"


def python(code: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a process that finds modules along `path`."""
    environment = {"PYTHONPATH": ":".join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with a module of each sibling's name; they count how often they are imported."""
    for path in ("trainer.py", "opponents.py", "wrappers/__init__.py", "benchmarks/__init__.py"):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("raise SystemExit('the intruder must not run')\n")
    return tmp_path


def test_the_normal_import_works(tmp_path: Path) -> None:
    done = python("import mage_envs, opponents; print(opponents.__file__)", ROOT, tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).parent.parent == ROOT


PURE = """
import numpy as np
import pettingzoo
import mage_envs

env = pettingzoo.make("aec", "mage/KuhnPoker-v0")
env.reset(seed=1)
env.step(0)
state = mage_envs.make_game("TicTacToe").initial_state(np.random.default_rng(0))
assert "mage/KuhnPoker-v0" in __import__("gymnasium").registry
assert dir(mage_envs).count("MetaEpisode") == 1


class First:
    def reset(self, rng): ...
    def act(self, turn): return turn.legal_actions[0]


mage_envs.play_match(mage_envs.make_game("KuhnPoker"), [First(), First()], np.random.default_rng(0))
"""


def test_games_and_pettingzoo_work_beside_a_users_own_modules(crowded: Path) -> None:
    done = python(PURE, crowded, ROOT, cwd=crowded)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "code",
    [
        MAKE,
        MAKE.replace("-v0", "-Meta-v0"),
        "import mage_envs; mage_envs.list_opponents",
        "from mage_envs import MetaEpisode",
        "import sys; sys.argv[1:] = ['list', 'KuhnPoker']; from mage_envs.__main__ import main; sys.exit(main())",
    ],
)
def test_what_needs_opponents_names_the_file(code: str, crowded: Path) -> None:
    line = last_line(python(code, crowded, ROOT, cwd=crowded))
    hidden = f"{crowded / 'opponents.py'} hides the package 'opponents' of mage-envs ({ROOT / 'opponents'}). Rename"
    assert hidden in line


@pytest.mark.parametrize("name", NAMES)
def test_one_that_is_not_needed_is_no_matter(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('the intruder must not run')\n")
    done = python(MAKE, tmp_path, ROOT, cwd=tmp_path)
    if name in ("trainer", "benchmarks"):
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert f"hides the package {name!r} of mage-envs" in last_line(done)


def test_an_opponent_of_a_hidden_package_is_refused(crowded: Path) -> None:
    (crowded / "opponents.py").unlink()
    (crowded / "wrappers" / "__init__.py").unlink()
    code = MAKE.replace("v0'", "v0', opponent='checkpoint:runs/x'")
    assert f"{crowded / 'trainer.py'} hides the package 'trainer'" in last_line(
        python(code, crowded, ROOT, cwd=crowded)
    )


@pytest.mark.parametrize("name", NAMES[:2])
def test_an_installed_distribution_is_named(name: str, tmp_path: Path) -> None:
    package = tmp_path / "site" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    line = last_line(python(MAKE, tmp_path / "site", ROOT, cwd=tmp_path))
    assert line.startswith(f"ImportError: {package / '__init__.py'} hides the package {name!r}")
    assert "uninstall that distribution" in line


def test_one_that_is_loaded_already_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrappers.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import wrappers; sys.path.pop(0); {MAKE}"
    assert f"{tmp_path / 'wrappers.py'} hides the package 'wrappers'" in last_line(python(code, ROOT, cwd=tmp_path))


def test_later_on_the_path_is_no_intruder(tmp_path: Path) -> None:
    (tmp_path / "opponents.py").write_text("")
    (tmp_path / "folder" / "wrappers").mkdir(parents=True)  # no package: a folder of results, say
    assert python(MAKE, tmp_path / "folder", ROOT, tmp_path, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("module", ["benchmarks", "trainer"])
def test_commands_name_the_file(module: str, tmp_path: Path) -> None:
    (tmp_path / "opponents.py").write_text("")
    code = f"import sys; from {module}.__main__ import main; sys.exit(main(['eval', '--preset', 'mage-kuhn']))"
    done = python(code, tmp_path, ROOT, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"{tmp_path / 'opponents.py'} hides the package 'opponents'" in done.stderr


def test_a_sibling_that_is_not_installed_is_no_error(tmp_path: Path) -> None:
    for name in NAMES:
        siblings.check(name, tmp_path)
        siblings.check(name)
