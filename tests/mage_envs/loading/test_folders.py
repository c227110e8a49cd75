"""Import names: the folders of a clone are parts of `mage_envs`, and a user's own modules keep their names."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT

FOLDERS = ("opponents", "wrappers", "trainer", "benchmarks")
OWN = """
import gymnasium as gym
import mage_envs
import benchmarks, opponents, trainer, wrappers

assert [module.MINE for module in (benchmarks, opponents, trainer, wrappers)] == [1, 1, 1, 1]
env = gym.make("mage/KuhnPoker-Meta-v0", opponent="kuhn/rock")
env.reset(seed=1)
from mage_envs.trainer import CreditConfig
from mage_envs.benchmarks import make_agent
make_agent("policy:kuhn/nash")
print(mage_envs.__file__)
"""


def run_script(script: str, *path: Path, cwd: Path) -> str:
    environment = {"PYTHONPATH": os.pathsep.join(map(str, path)), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize(
    "first_module", ["import mage_envs", "import opponents", "from wrappers import MetaEpisode", "pass"]
)
def test_a_folder_of_a_clone_is_the_same_package(first_module: str, tmp_path: Path) -> None:
    """Load one package from a clone, for any first import. Two modules of one file would have two registries."""
    script = f"""
{first_module}
import sys
import trainer.method.returns, opponents.games.kuhn
from benchmarks import panel
from wrappers import MetaEpisode
import mage_envs.benchmarks, mage_envs.opponents.games.kuhn, mage_envs.trainer.method.returns, mage_envs.wrappers
import benchmarks, opponents, wrappers
assert opponents is mage_envs.opponents and benchmarks is mage_envs.benchmarks
assert opponents.games.kuhn is mage_envs.opponents.games.kuhn
assert trainer.method.returns is mage_envs.trainer.method.returns
assert trainer.method.returns.__spec__.name == "mage_envs.trainer.method.returns"
assert MetaEpisode is mage_envs.MetaEpisode
files = [module.__spec__.origin for module in set(sys.modules.values()) if getattr(module, "__spec__", None)]
ours = [file for file in files if file and file.startswith({str(ROOT)!r})]
assert len(ours) == len(set(ours))
"""
    run_script(script, ROOT, cwd=tmp_path)


def test_an_unknown_module_of_a_folder_is_not_found(tmp_path: Path) -> None:
    script = "import opponents\ntry: import opponents.nothing\nexcept ModuleNotFoundError as error: print(error.name)"
    assert run_script(script, ROOT, cwd=tmp_path) == "mage_envs.opponents.nothing"


@pytest.mark.parametrize("is_wheel", [False, True])
def test_modules_of_the_user_keep_their_names(is_wheel: bool, tmp_path: Path) -> None:
    """Modules beside a script, as `python script.py` finds them, from a clone and from a wheel."""
    site = ROOT
    if is_wheel:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
        subprocess.run(build, check=True, capture_output=True, text=True, cwd=ROOT)
        [wheel] = tmp_path.glob("*.whl")
        site = tmp_path / "site"
        zipfile.ZipFile(wheel).extractall(site)
        assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"mage_envs"}
    own_folder = tmp_path / "own"
    own_folder.mkdir()
    for name in FOLDERS[:2] + FOLDERS[3:]:
        (own_folder / f"{name}.py").write_text("MINE = 1\n")
    (own_folder / "trainer").mkdir()
    (own_folder / "trainer" / "__init__.py").write_text("MINE = 1\n")
    assert run_script(OWN, own_folder, site, cwd=own_folder) == str(site / "mage_envs" / "__init__.py")
