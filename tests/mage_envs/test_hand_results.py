"""A `HandResult` and its entry in `info["hand_results"]`: one function makes the entry, and one reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from mage_envs import HandResult, MetaEpisode
from mage_envs.core import hand_results
from tests.processes import ROOT

PACKAGES = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
Step = tuple[str, float, bool, bool, dict[str, Any]]


def play(env: gym.Env[str, str], answer: Callable[[dict[str, Any]], str]) -> list[dict[str, Any]]:
    """Return the `info` of every step of an episode."""
    infos, over = [env.reset(seed=3)[1]], False
    while not over:
        _, _, over, _, info = env.step(answer(infos[-1]))
        infos.append(info)
    return infos[1:]


def first_action(info: dict[str, Any]) -> str:
    return info["legal_actions"][0]


def tag_action(info: dict[str, Any]) -> str:
    return f"<{info['answer_tag']}>{first_action(info)}</{info['answer_tag']}>"


@pytest.mark.parametrize(
    "result",
    [
        HandResult(1.5),
        HandResult(-2.0, 1, "forfeit", observation="You lost."),
        HandResult(0.1, 2, "rules", True, observation="You won.", information_state="Kb"),
    ],
)
def test_a_result_is_equal_after_a_journey_through_json(result: HandResult) -> None:
    entry = result.to_info()
    assert entry == result._asdict(), "every field has its entry"
    assert list(entry) == list(result._fields)
    assert HandResult.from_info(json.loads(json.dumps(entry))) == result


@pytest.mark.parametrize("name", ["KuhnPoker", "TicTacToe"])
def test_info_states_the_results_that_the_environment_holds(name: str) -> None:
    env = gym.make(f"mage/{name}-v0", hands_per_episode=3)
    infos = play(env, first_action)
    assert [result for info in infos for result in hand_results(info)] == env.unwrapped.hands
    assert len(env.unwrapped.hands) == 3
    assert all(json.loads(json.dumps(info["hand_results"])) == info["hand_results"] for info in infos[-1:])
    assert hand_results({}) == []


def test_a_meta_episode_states_the_results_that_it_records() -> None:
    env = gym.make("mage/KuhnPoker-Meta-v0", num_episodes=2, memory="history", hands_per_episode=2)
    infos = play(env, tag_action)
    recorded = [hand for record in env.get_wrapper_attr("records") for hand in record.hands]
    assert [result for info in infos for result in hand_results(info)] == recorded
    assert len(recorded) == 4


class ChangesResults(gym.Wrapper[str, str, str, str]):
    """A user's wrapper that replaces entries of `info["hand_results"]`."""

    def step(self, action: str) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(action)
        for entry in info.get("hand_results", ()):
            entry |= {"ended_by": "timeout", "observation": "Rewritten."}
        return observation, float(reward), terminated, truncated, info


def test_a_wrapper_inside_a_meta_episode_may_change_the_results() -> None:
    inner = gym.make("mage/KuhnPoker-v0", hands_per_episode=2)
    meta = MetaEpisode(ChangesResults(inner), num_episodes=2, memory="history")
    infos = play(meta, tag_action)
    ends = [info for info in infos if info["episode_end"]]
    assert [info["timeout"] for info in ends] == [True, True]
    assert [info["ended_with"] for info in ends] == [["Rewritten."] * 2] * 2
    assert {hand.ended_by for record in meta.records for hand in record.hands} == {"timeout"}
    # The environment keeps its own results: an entry of `info` is a copy.
    assert {hand.ended_by for hand in inner.unwrapped.hands} == {"rules"}


def test_one_function_reads_an_entry_and_one_reads_the_key() -> None:
    read_key = re.compile(r'\bget\("hand_results"|\["hand_results"\](?! =)')
    files_by_access: dict[str, set[str]] = {"entry": set(), "key": set()}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            # The docstrings name the key in backquotes.
            code = re.sub(r"`[^`\n]*`", "", path.read_text("utf-8"))
            if "HandResult(**" in code:
                files_by_access["entry"].add(str(path.relative_to(ROOT)))
            if read_key.search(code):
                files_by_access["key"].add(str(path.relative_to(ROOT)))
    assert files_by_access == {"entry": set(), "key": {"mage_envs/core.py"}}
