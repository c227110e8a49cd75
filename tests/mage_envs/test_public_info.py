"""The interface for integrations: public and private entries of `info`, panels, limits, and options of `reset`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mage_envs
from mage_envs.testing import sample_reply
from tests.processes import run_python

ROOT = Path(__file__).parents[2]
PRIVATE_KEYS = {"metrics", "task", "category", "opponent", "opponent_calls", "episode_metrics", "legal_actions"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "kuhn": ("KuhnPoker", {"opponent": "kuhn/maniac", "hands_per_episode": 2}),
    "tictactoe": ("TicTacToe", {"opponent": "minimax"}),
    "rounds": ("PrisonersDilemma", {}),
    "sokoban": ("Sokoban", {"max_turns": 3}),
    "webshop": ("WebShop", {"size": "tiny", "max_turns": 3}),
}


def play_episode(env: gym.Env[str, str], seed: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the observation and the info of `reset` and of each step of one episode."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    over = False
    yield observation, info
    while not over:
        observation, _, terminated, truncated, info = env.step(sample_reply(info, rng))
        over = terminated or truncated
        yield observation, info


@pytest.mark.parametrize("suffix", ["", "-Meta"])
@pytest.mark.parametrize("case", CASES)
def test_every_key_is_public_or_private(case: str, suffix: str) -> None:
    game, options = CASES[case]
    env = gym.make(f"mage/{game}{suffix}-v0", disable_env_checker=True, **options)
    infos = [info for _, info in play_episode(env)]
    for info in infos:
        assert info.keys() <= {*mage_envs.PUBLIC_KEYS, "private"}
        assert info["private"].keys() <= PRIVATE_KEYS
        assert mage_envs.public_info(info) == {key: info[key] for key in info if key != "private"}
        assert json.loads(json.dumps(info)) is not None
    end = infos[-1]["private"]
    name = end["opponent"]
    hidden = [name, end.get("task")]
    for info in infos:
        public = json.dumps(mage_envs.public_info(info))
        assert not any(json.dumps(hidden_value) in public for hidden_value in hidden if hidden_value)
        assert info["messages"][-1]["role"] == "user"
        assert info["phase"] in ("play", "reflect")
        assert (info["answer_tag"] is None) == (suffix == "")
        assert info["num_episodes"] == (3 if suffix else 1)
    assert all("opponent" not in info["private"] for info in infos[:-1])


@pytest.mark.parametrize("suffix", ["", "-Meta"])
def test_entries_of_info_belong_to_the_caller(suffix: str) -> None:
    env = gym.make(f"mage/Sokoban{suffix}-v0", max_turns=3, disable_env_checker=True)
    expected = [json.dumps(info, sort_keys=True) for _, info in play_episode(env)]
    infos_seen = []
    for _, info in play_episode(env):
        infos_seen.append(json.dumps(info, sort_keys=True))
        info["messages"].append("mine")
        info["private"].get("metrics", {}).clear()
        info["private"].clear()
    assert infos_seen == expected


def test_the_page_lists_every_key() -> None:
    page = (ROOT / "docs/environments.md").read_text()
    tables = page[page.index("## What does `info` hold?") : page.index("## How do I choose the task?")]
    rows = re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
    listed = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert listed == {*mage_envs.PUBLIC_KEYS, *PRIVATE_KEYS}


@pytest.mark.parametrize("rule", ["first", "second", "alternate", "fixed"])
@pytest.mark.parametrize("game_id", ["mage/KuhnPoker-v0", "mage/KuhnPoker-Meta-v0"])
def test_the_option_seat_accepts_the_rules_of_make(game_id: str, rule: str) -> None:
    made_env = gym.make(game_id, seat=rule, hands_per_episode=3, disable_env_checker=True)
    chosen_env = gym.make(game_id, hands_per_episode=3, disable_env_checker=True)
    for seed in range(4):
        chosen_env.reset(seed=99)
        chosen_result = chosen_env.reset(seed=seed, options={"seat": rule})
        made_result = made_env.reset(seed=seed)
        over = False
        while not over:
            assert made_result[:2] == chosen_result[:2]
            assert made_result[-1] == chosen_result[-1]
            info = made_result[-1]
            reply = sample_reply(info, np.random.default_rng(seed))
            made_result, chosen_result = made_env.step(reply), chosen_env.step(reply)
            over = made_result[2]
        assert made_result == chosen_result


def test_an_unknown_seat_is_refused_with_the_choices() -> None:
    env = gym.make("mage/KuhnPoker-v0")
    with pytest.raises(ValueError, match="must be a seat from 0 to 1, or one of first, second, alternate, fixed"):
        env.reset(seed=0, options={"seat": "third"})


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 3 * 6 + 2), ({"memory": "none"}, 3 * 6), ({"num_episodes": 5, "memory": "both", "max_turns": 2}, 5 * 2 + 4)],
)
def test_illegal_answers_alone_use_the_maximum_number_of_steps(options: dict[str, Any], expected: int) -> None:
    env = gym.make("mage/KuhnPoker-Meta-v0", disable_env_checker=True, **options)
    _, info = env.reset(seed=0)
    assert info["max_steps"] == expected
    steps, over = 0, False
    while not over:
        _, _, over, _, info = env.step("<remark>x</remark>" if info["phase"] == "reflect" else "nonsense")
        steps += 1
    assert steps == expected
    assert info["ended_episode"] == info["num_episodes"] - 1
    assert len(info["episode_values"]) == info["num_episodes"]


@pytest.mark.parametrize("memory", ["reflexion", "amem", "memento", "react:think_action=true"])
def test_no_memory_exceeds_its_maximum_number_of_steps(memory: str) -> None:
    env = gym.make("mage/KuhnPoker-Meta-v0", memory=memory, disable_env_checker=True)
    for seed in range(3):
        infos = [info for _, info in play_episode(env, seed)]
        assert len(infos) - 1 <= infos[0]["max_steps"]


def test_a_base_id_has_a_maximum_too() -> None:
    env = gym.make("mage/TicTacToe-v0", hands_per_episode=2, max_turns=3, opponent="minimax")
    assert env.reset(seed=0)[1]["max_steps"] == 6


def test_panels_by_name() -> None:
    panel = mage_envs.panel("kuhn-paper-16")
    tasks = panel.tasks()
    assert isinstance(panel, mage_envs.Panel)
    assert len(tasks) >= 16
    assert {"kuhn-paper", "tictactoe-paper", "sokoban-eval-2box"} <= set(mage_envs.list_panels())
    assert tasks[0].options() == {"opponent": tasks[0].opponent, "seat": tasks[0].seat}
    with pytest.raises(ValueError, match="Did you mean 'kuhn-paper'"):
        mage_envs.panel("kuhn-papr")


def test_panels_are_loaded_on_first_use() -> None:
    code = """
import sys, mage_envs
assert not [name for name in sys.modules if name.startswith("mage_envs.benchmarks")]
mage_envs.panel("kuhn-paper-16").tasks()
assert "mage_envs.benchmarks" in sys.modules
assert not {"torch", "transformers", "trl", "matplotlib"} & sys.modules.keys()
"""
    process = run_python("-c", code, folder=ROOT)
    assert process.returncode == 0, process.stderr
