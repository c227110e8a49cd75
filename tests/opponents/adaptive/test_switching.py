"""The opponent that is exchanged for another within the meta-episode."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs.core import Turn, has_memory, is_state_policy
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.opponents import list_forms, list_opponents, make_opponent, opponent_info
from mage_envs.opponents.exact.tree import is_exact
from mage_envs.opponents.switching import Switching, switching
from tests.opponents.dealing import decisions

KUHN = KuhnPoker()
TURNS = decisions(KUHN)


def hands(opponent: str, seed: int) -> list[list[str]]:
    """Return the observations of a learner that always takes the first legal action, by episode."""
    env = gym.make("mage/KuhnPoker-Meta-v0", opponent=opponent, memory="none", num_episodes=4)
    _, info = env.reset(seed=seed)
    transcripts: list[list[str]] = [[], [], [], []]
    terminated = False
    while not terminated:
        episode = info["episode_index"]
        transcripts[episode].append(info["anchor"])
        _, reward, terminated, _, info = env.step(f"<action>{info['legal_actions'][0]}</action>")
        transcripts[episode].append(str(reward))
    return transcripts


class Teller:
    """A policy that a model plays, as far as records know."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[0]

    def model_calls(self) -> list[dict[str, str]]:
        return [{"model": self.name}]


def test_the_answers_of_both_opponents_models_are_recorded() -> None:
    rock = make_opponent("kuhn/rock", KUHN)
    assert Switching(Teller("a"), Teller("b"), 1).model_calls() == [{"model": "a"}, {"model": "b"}]
    assert Switching(rock, Teller("b"), 1).model_calls() == [{"model": "b"}]
    env = gym.make("mage/KuhnPoker-Meta-v0", opponent=Switching(rock, Teller("b"), 1), memory="none", num_episodes=2)
    _, info = env.reset(seed=0)
    terminated = False
    while not terminated:
        assert "opponent_calls" not in info
        *_, terminated, _, info = env.step(f"<action>{info['legal_actions'][0]}</action>")
    assert info["private"]["opponent_calls"] == [{"model": "b"}]


@pytest.mark.parametrize(("first_name", "second_name"), [("kuhn/maniac", "kuhn/rock"), ("kuhn/soft-scared", "uniform")])
def test_each_half_is_played_exactly_as_the_one_in_force_plays_it(first_name: str, second_name: str) -> None:
    differ = 0
    for seed in range(40):
        switched = hands(f"switch:{first_name},{second_name},2", seed)
        first_hands, second_hands = (
            hands(f"switch:{first_name},{first_name},2", seed),
            hands(f"switch:{second_name},{second_name},2", seed),
        )
        assert switched[:2] == first_hands[:2]
        assert switched[2:] == second_hands[2:]
        differ += first_hands[2:] != second_hands[2:]
    assert differ > 5


def test_distribution_follows_the_episode() -> None:
    policy = make_opponent("switch:kuhn/maniac,kuhn/nash:0.2,1", KUHN)
    maniac, nash = make_opponent("kuhn/maniac", KUHN), make_opponent("kuhn/nash:0.2", KUHN)
    for turn in TURNS:
        assert policy.distribution(turn) == maniac.distribution(turn)
        assert policy.distribution(turn._replace(episode=3)) == nash.distribution(turn)


@pytest.mark.parametrize(
    ("spec", "exact"), [("switch:minimax,tictactoe/pattern-1,1", True), ("switch:mcts:5,uniform,1", False)]
)
def test_is_exact_where_both_are_but_follows_the_episode(spec: str, exact: bool) -> None:
    policy = make_opponent(spec, TicTacToe())
    assert is_exact(policy) == exact
    assert isinstance(policy, Switching)
    assert not is_state_policy(policy)


def test_memory_is_passed_on() -> None:
    class Remembers:
        begun = 0

        def on_meta_episode_start(self) -> None:
            self.begun += 1

        def reset(self, rng: np.random.Generator) -> None: ...

        def act(self, turn: object) -> str:
            return "check"

    remembering, uniform = Remembers(), make_opponent("uniform", KUHN)
    policy = switching(remembering, uniform, 1)
    assert has_memory(policy)
    assert not has_memory(switching(uniform, uniform, 1)), "neither of them does"
    policy.on_meta_episode_start()
    assert remembering.begun == 1


def test_it_is_listed_by_its_form_alone() -> None:
    assert "switch" not in list_opponents("KuhnPoker")
    assert {"switch:first,then,episode", "checkpoint:folder"} <= set(list_forms("KuhnPoker"))
    assert opponent_info("switch").form == "switch:first,then,episode"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("switch", "needs first, then, episode"),
        ("switch:uniform,cfr", "needs episode"),
        ("switch:uniform,cfr,x", "episode must be a whole number, got 'x'"),
        ("switch:uniform,cfr,-1", "episode must be 0 or more, got -1"),
        ("switch:unifrm,cfr,1", "Did you mean 'uniform'"),
        ("switch:uniform,tictactoe/pattern-1,1", "plays TicTacToe, not KuhnPoker"),
    ],
)
def test_errors(spec: str, message: str) -> None:
    with pytest.raises((ValueError, KeyError)) as caught:
        make_opponent(spec, KUHN)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
