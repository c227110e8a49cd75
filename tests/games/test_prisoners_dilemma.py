"""The repeated prisoner's dilemma: payments, observations, noise."""

from __future__ import annotations

import pickle
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import IllegalAction, State
from mage_envs.games.prisoners_dilemma import PrisonersDilemma
from mage_envs.tree import positions, roots_of
from tests.mage_envs.test_words import play_texts

RNG = np.random.default_rng(0)


def after(state: State, *actions: str) -> State:
    for action in actions:
        state = state.after(action)
    return state


def start(**options) -> State:
    return PrisonersDilemma(**options).initial_state(RNG)


@pytest.mark.parametrize(
    ("choices", "points"), [("cc", (3, 3)), ("cd", (0, 5)), ("dc", (5, 0)), ("dd", (1, 1))], ids=lambda x: str(x)
)
def test_a_round_pays_by_both_choices(choices: str, points: tuple[int, int]) -> None:
    state = after(start(rounds=1), *choices)
    assert state.player is None
    assert state.returns == points
    assert [state.won(seat) for seat in (0, 1)] == [point >= 3 for point in points]


def test_a_return_is_the_mean_per_round() -> None:
    state = after(start(), *"cc cd dd dc cc".replace(" ", ""))
    assert state.returns == pytest.approx(((3 + 0 + 1 + 5 + 3) / 5, (3 + 5 + 1 + 0 + 3) / 5))
    assert state.observation(1).splitlines()[1] == (
        "Round 2: you defect, the other player cooperates: 5 points for you, 0 for the other."
    )
    assert state.observation(0).endswith("The 5 rounds are over: 12 points for you, 12 for the other.")
    assert not state.won(0)


def test_no_seat_sees_a_choice_before_both_are_made() -> None:
    for _, root in roots_of(PrisonersDilemma(rounds=2)):
        for node in positions([root]):
            if node.player == 1:
                other_state = _before(node.state).after(
                    "defect" if node.state.open_choice == "cooperate" else "cooperate"
                )
                assert node.state.observation(1) == other_state.observation(1)
                assert node.state.information_state(1) == other_state.information_state(1)
                assert node.state.information_state(0) != other_state.information_state(0)


def _before(state: State) -> State:
    return after(PrisonersDilemma(rounds=2).initial_state(RNG), *state.origin.moves[:-1])


def test_texts_and_keys_tell_the_same_apart() -> None:
    for noise in (0.0, 0.2):
        game = PrisonersDilemma(rounds=2, noise=noise)
        for seat in (0, 1):
            keys_by_text: dict[str, set[str]] = {}
            for node in positions([root for _, root in roots_of(game)]):
                keys_by_text.setdefault(node.state.observation(seat), set()).add(node.state.information_state(seat))
            assert all(len(keys) == 1 for keys in keys_by_text.values())
            decided = {n.state.information_state(seat) for n in positions([r for _, r in roots_of(game)])}
            assert len(decided) == len({next(iter(keys)) for keys in keys_by_text.values()})


def test_noise_turns_the_second_seats_choice_alone() -> None:
    game = PrisonersDilemma(rounds=2, noise=0.25)
    assert sum(chance for chance, _ in game.initial_states()) == pytest.approx(1)
    came_out: Counter[str] = Counter()
    for chance, first_state in game.initial_states():
        state = after(first_state, "cooperate", "cooperate", "defect", "cooperate")
        assert state.information_state(0).startswith("cooperate opp-")
        assert "slipped" not in state.information_state(0)
        came_out[" ".join(word for word in state.information_state(0).split() if word.startswith("opp"))] += chance
        slips = state.information_state(1).count("slipped")
        assert state.observation(1).count("(you had chosen cooperate)") == slips
    assert came_out == pytest.approx(
        {
            "opp-cooperate opp-cooperate": 0.5625,
            "opp-defect opp-cooperate": 0.1875,
            "opp-cooperate opp-defect": 0.1875,
            "opp-defect opp-defect": 0.0625,
        }
    )
    assert "probability of 25%" in game.spec.rules
    assert "You are the second player." in after(start(rounds=1, noise=0.1), "c").observation(1)


def test_states_are_shared_through_pickles_and_spellings() -> None:
    state = after(start(), "C", " defect ", "d")
    assert state is after(start(), "cooperate", "d", "DEFECT")
    assert pickle.loads(pickle.dumps(state)) is state
    assert state.canonical("D") == "defect"
    with pytest.raises(IllegalAction, match="choose one of: cooperate, defect"):
        state.after("betray")


def test_payoffs_are_an_option() -> None:
    env = gym.make("mage/PrisonersDilemma-v0", rounds=1, payoffs=[2, -1, 3, 0], opponent="pd/all-c")
    env.reset(seed=0)
    assert env.step("defect")[1] == 3
    assert env.get_wrapper_attr("game_spec").min_return == -1
    assert "each gets 2 points" in env.get_wrapper_attr("game_spec").rules


def test_the_learner_has_the_first_seat_by_default() -> None:
    for name, seat in (("v0", None), ("Meta-v0", None), ("v0", "second"), ("Meta-v0", "second")):
        options = {} if seat is None else {"seat": seat}
        env = gym.make(f"mage/PrisonersDilemma-{name}", opponent="pd/grim", **options)
        assert {env.reset(seed=seed)[1]["seat"] for seed in range(8)} == {0 if seat is None else 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, r"^rounds=0 must be a whole number of at least 1\.$"),
        ({"noise": 1.5}, r"^noise=1\.5 must be a probability of at least 0 and below 1\.$"),
        ({"rounds": 11, "noise": 0.1}, r"^rounds=11 must be at most 10 if there is noise\.$"),
        ({"payoffs": (1, 2)}, r"^payoffs=\(1, 2\) must be four numbers, as in \(3, 0, 5, 1\)\.$"),
    ],
)
def test_bad_options(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrisonersDilemma(**options)


def test_a_conversation_in_words() -> None:
    texts = play_texts("PrisonersDilemma", ["cooperate", "defect", "cooperate"], opponent="pd/grim", rounds=2)
    assert texts[:4] == ["episode 1 first", "opp-cooperate", "opp-cooperate +4 episode 2 first", "opp-cooperate"]
