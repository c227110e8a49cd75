"""A newcomer's game and opponents in one file: they pass the contract and train. The file is that of docs/extending.md.

Each test is a process of its own, since the registries of games and opponents are global.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.interruptions import run_in_fork
from tests.processes import ROOT, run_python
from tests.test_readme import blocks, mark_value

CONTRACT = """
import warnings
import pettingzoo
from pettingzoo.test import api_test, seed_test
import mage_envs, my_games
from mage_envs.opponents import list_opponents
from mage_envs.testing import check_id

assert "WaterFireWood" in mage_envs.list_games()
names = [name for name in list_opponents("WaterFireWood") if name.startswith("wfw/")]
assert names == ["wfw/always", "wfw/cycle"], names
for kind in ("v0", "Meta-v0"):
    for opponent in (*names, "wfw/cycle:2", "my_games:Always", "uniform"):
        check_id(f"mage/WaterFireWood-{kind}", opponent=opponent)
    check_id(f"mage/WaterFireWood-{kind}")

def make():
    return pettingzoo.make("aec", "mage/WaterFireWood-v0")

warnings.filterwarnings("ignore", message="Observation is not a NumPy array")
warnings.filterwarnings("ignore", message="Observation space for each agent probably should be")
warnings.filterwarnings("ignore", message="Action mask numpy array is all zeros")
api_test(make(), num_cycles=100)
seed_test(make, num_cycles=50)
"""

PLAY = """
import gymnasium as gym

env = gym.make("my_games:mage/WaterFireWood-Meta-v0", opponent="wfw/cycle", num_episodes=3, memory="history")
shown = []
for seat in (0, 1):
    prompt, info = env.reset(seed=0, options={"seat": seat})
    shown.append((prompt, info["legal_actions"], info["anchor"]))
    assert info["seat"] == seat
assert shown[0] == shown[1]  # the second to answer is not told the first's choice
rewards, remembered = [], []
for action in ("wood", "water", "fire"):  # against water, fire, wood
    remembered.append("the opponent chose" in prompt)
    prompt, reward, done, _, info = env.step(f"<action>{action}</action>")
    rewards.append(reward)
assert (rewards, remembered, done) == ([10.0, 10.0, 10.0], [False, True, True], True)
assert info["private"]["opponent"] == "wfw/cycle"

import my_games
import my_memory

env = gym.make("mage/WaterFireWood-Meta-v0", opponent=my_games.Always(), memory=my_memory.Results())
prompt, _ = env.reset(seed=1)
for episode in range(3):
    assert prompt.count("You chose wood, the opponent chose water. You win.") == episode, prompt
    prompt, reward, done, _, info = env.step("<action>wood</action>")
    assert reward == 10.0
assert done
"""

TRAIN = """
import sys
import gymnasium as gym
import torch
import my_games
from mage_envs.trainer import MAGEConfig, MAGETrainer
from mage_envs.trainer.backends.tiny import general_tiny

folder = sys.argv[1]
config = MAGEConfig(
    output_dir=folder, env_id="mage/WaterFireWood-Meta-v0", groups_per_rollout=2, num_generations=2,
    max_rollouts=2, updates_per_rollout=1, max_completion_length=4, learning_rate=1e-3, use_cpu=True,
    report_to="none", save_strategy="no", disable_tqdm=True,
)
make_env = lambda: gym.make(config.env_id, disable_env_checker=True, num_episodes=2, max_turns=1)
seen = []
trainer = MAGETrainer(
    general_tiny(folder), config, make_env, {"wfw/always": 0.5, "wfw/cycle": 0.5},
    on_rollout_end=lambda trainer, trajectories: seen.extend(trajectories),
)
before = [weight.clone() for weight in trainer.model.parameters()]
trainer.train()
assert trainer.state.global_step == 2
assert any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
assert len(seen) == 8 and all(trajectory.failure is None for trajectory in seen)
assert {trajectory.opponent for trajectory in seen} <= {"wfw/always", "wfw/cycle"}
"""

ANNOUNCED = """
import sys
import mage_envs
from mage_envs.opponents import list_opponents
import gymnasium as gym

assert "WaterFireWood" in mage_envs.list_games()
assert "my_games" not in sys.modules
assert "wfw/cycle" in list_opponents("WaterFireWood")
prompt, _ = gym.make("mage/WaterFireWood-Meta-v0", opponent="wfw/cycle:2").reset(seed=0)
assert "Water beats" in prompt
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that docs/extending.md and docs/own-memory.md show."""
    for page, name in (("extending", "my_games.py"), ("own-memory", "my_memory.py")):
        [code] = [block.text for block in blocks(ROOT / "docs" / f"{page}.md") if mark_value(block, "file") == name]
        (tmp_path / name).write_text(code + "\n")
    return tmp_path


def run(code: str, folder: Path, *arguments: str) -> None:
    process = run_python("-P", "-c", code, *arguments, folder=folder, path=(ROOT, folder))
    assert process.returncode == 0, process.stderr


def test_both_ids_pass_the_contract(folder: Path) -> None:
    run(CONTRACT, folder)


def test_the_ids_play_as_the_rules_say(folder: Path) -> None:
    run(PLAY, folder)


def test_it_trains_two_updates(folder: Path) -> None:
    def train() -> None:
        sys.path[:0] = [str(folder)]
        sys.argv[1:] = [str(folder / "run")]
        exec(TRAIN, {"__name__": "__main__"})

    # A fork, because a new process would load torch for seconds.
    import_module("mage_envs.trainer.trl.mage_trainer")
    assert run_in_fork(train) == 0


def test_another_package_announces_it_by_entry_points(folder: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    announced = page.split("```toml\n")[1].split("```")[0]
    announced = announced.replace('project.entry-points."', "").replace('"]', "]").replace('"', "")
    info = folder / "my_games-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-games\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(announced)
    run(ANNOUNCED, folder)
