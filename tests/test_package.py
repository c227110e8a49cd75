"""The contents of a wheel, and a package of another author.

pip builds and installs the package from the pages on own parts, and the suite finds it by its name.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import mage_envs
from dev.published_readme import PublishedReadme
from mage_envs import benchmarks
from mage_envs.benchmarks.report.document import SCRIPTS
from tests.test_readme import ROOT, blocks, mark_value

PACKAGES = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
PAGES = [*blocks(ROOT / "docs" / "extending.md"), *blocks(ROOT / "docs" / "own-memory.md")]
MODULES = ("my_games.py", "my_memory.py")
REPOSITORY = "https://example.org/owner/mage-envs"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "my-games"
version = "0.1"

[tool.hatch.build.targets.wheel]
only-include = ["my_games.py", "my_memory.py"]
"""
SCRIPT = """
import gymnasium as gym
import mage_envs
from mage_envs.opponents import list_opponents

assert "WaterFireWood" in mage_envs.list_games()
assert "wfw/always" in list_opponents("WaterFireWood")
assert "results" in mage_envs.list_memories()
for kind in ("v0", "Meta-v0"):
    env = gym.make(f"mage/WaterFireWood-{kind}", opponent="wfw/always", seat="second")
    observation, info = env.reset(seed=1)
    done = False
    while not done:
        reply = "wood" if kind == "v0" else "<action>wood</action>"
        reply = "<remark>wood</remark>" if info.get("phase") == "reflect" else reply
        observation, reward, done, _, info = env.step(reply)
    assert info["success"], observation
import my_games
print(my_games.__file__)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the package into; no index is asked."""
    source, target = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    for name in MODULES:
        [code] = [block.text for block in PAGES if mark_value(block, "file") == name]
        (source / name).write_text(code + "\n")
    points = next(block for block in PAGES if block.language == "toml")
    (source / "pyproject.toml").write_text(PROJECT + points.text + "\n")
    command = [
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        target,
        source,
    ]
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True, capture_output=True, text=True)
    return target


def test_an_installed_package_announces_its_game_and_its_opponents(site: Path, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
    )
    assert process.returncode == 0, process.stderr
    assert Path(process.stdout.strip()).parent == site


def test_without_it_nothing_is_announced(tmp_path: Path) -> None:
    script = "import mage_envs; print(mage_envs.list_games())"
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert "WaterFireWood" not in process.stdout


def test_an_editable_install_copies_nothing(tmp_path: Path) -> None:
    """`git pull` is enough: the console scripts' module and all packages are those of the clone."""
    script = "import mage_envs.trainer; print(mage_envs.__file__, mage_envs.trainer.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [str(ROOT / "mage_envs" / f"{name}__init__.py") for name in ("", "trainer/")]


def test_the_wheel_holds_what_users_call_and_no_tools_of_developers(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, text=True, cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    [about] = [name for name in files if name.endswith(".dist-info/METADATA")]
    assert (ROOT / "README.md").read_text() in zipfile.ZipFile(wheel).read(about).decode()
    # An ignored folder such as runs/ must not take a package's folder of the same name out of the wheel.
    tracked = subprocess.run(["git", "ls-files", *PACKAGES], capture_output=True, text=True, check=True, cwd=ROOT)
    # The folders beside mage_envs are inside it in a wheel, so that no common name is taken.
    expected = {
        name if name.startswith("mage_envs/") else f"mage_envs/{name}"
        for name in tracked.stdout.split()
        if not name.startswith("benchmarks/results/") and not (ROOT / name).is_symlink()
    }
    assert {file for file in files if ".dist-info" not in file} == expected
    page = {path.name for path in (ROOT / "benchmarks" / "report" / "page").iterdir()}
    parts = ("bubbles", "chart", "curves", "leaderboard", "page", "results", "summary", "swings", "trained")
    assert {"page.css", *SCRIPTS, *(f"{part}.html" for part in parts)} == page
    assert {f"mage_envs/benchmarks/report/page/{name}" for name in page} <= set(files)
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mage_envs").rglob("*.toml")}
    assert len(data) == 12
    assert data <= set(files)


def test_a_published_readme_links_to_the_repository() -> None:
    metadata: dict[str, Any] = {"urls": {"Paper": "https://arxiv.org/abs/2603.03680", "Source": f"{REPOSITORY}/"}}
    PublishedReadme(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(link.startswith("https://") for link in links)
    own_links = [link.removeprefix(REPOSITORY) for link in links if link.startswith(REPOSITORY)]
    assert "/raw/HEAD/benchmarks/results/report-1280-light.png" in own_links
    assert "/blob/HEAD/docs/index.md" in own_links
    assert all((ROOT / link.split("/HEAD/")[1].split("#")[0]).exists() for link in own_links)
    # Nothing but addresses was changed.
    assert re.sub(rf"{REPOSITORY}/(raw|blob)/HEAD/", "", text) == (ROOT / "README.md").read_text()


@pytest.mark.parametrize("package", [mage_envs, benchmarks])
def test_each_public_name_is_there(package: object) -> None:
    names = vars(package)["__all__"]
    assert sorted(set(names)) == sorted(names)
    assert set(names) <= set(dir(package))
    assert [name for name in names if not hasattr(package, name)] == []
    assert not hasattr(package, "no_such_name")


def test_hints_name_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    files += [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.ipynb")]
    hints = {hint for path in files for hint in re.findall(r"pip install [^`'\n]+", path.read_text())}
    named_extras = {
        extra for hint in hints for group in re.findall(r"\[([\w,-]+)\]", hint) for extra in group.split(",")
    }
    assert named_extras <= set(extras)
    in_a_clone = {hint for hint in hints if "-e" in hint.split()}
    assert all(hint.startswith("pip install -e . ") for hint in in_a_clone), in_a_clone


def test_help_and_errors_name_no_page_that_a_wheel_lacks() -> None:
    """Only docstrings and comments, which readers of the code see, may name a page of docs/."""
    pages_named = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        # A command's docstring is its help.
        helps = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == "command" and isinstance(node.body[0], ast.Expr)
        }
        pages_named += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "docs/" in node.value
            if id(node) in helps or id(node) not in docstrings
        ]
    assert pages_named == []
