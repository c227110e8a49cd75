"""Garbage never beats play: an illegal answer is worth no more than the best legal one, under every `on_invalid`."""

from __future__ import annotations

import re
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs import make_game
from mage_envs.core import is_success
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import best_response
from tests.packages import mark_params

CASES = [
    ("KuhnPoker", "kuhn/nash"),
    ("KuhnPoker", "kuhn/maniac"),
    ("TicTacToe", "minimax"),
    ("RockPaperScissors", "rps/copy"),
    ("PrisonersDilemma", "pd/all-d"),
    ("Ultimatum", "ultimatum/reserve:8"),
    ("Inspection", "inspect/greedy"),
]
"""Games with an exact best response, against opponents that leave little to the learner."""
DEALS = 40


def play(env, seed, policy, spoils):
    """Return the return of an episode in which the learner answers garbage wherever `spoils(turn)` is True."""
    env.reset(seed=seed)
    hand, terminated, total = env.unwrapped.hand, False, 0.0
    while not terminated:
        turn = hand.turn(env.unwrapped.seat)
        action = "garbage" if spoils(turn) else policy.act(turn)
        _, reward, terminated, _, _ = env.step(action)
        total += reward
    return total


@pytest.mark.parametrize("on_invalid", ["retry", "forfeit"])
@pytest.mark.parametrize("seat", ["first", "second"])
@pytest.mark.parametrize(("name", "opponent"), CASES)
def test_garbage_at_any_decision_is_no_better_than_the_best_response(name, opponent, seat, on_invalid):
    game = make_game(name)
    best = best_response(game, make_opponent(opponent, game), ("first", "second").index(seat)).policy
    env = gym.make(f"mage/{name}-v0", opponent=opponent, seat=seat, on_invalid=on_invalid, disable_env_checker=True)
    for seed in range(DEALS):
        best_return = play(env, seed, best, lambda turn: False)
        for spoils in (lambda turn: True, lambda turn: turn.history[2:] or "bet" in turn.information_state):
            assert play(env, seed, best, spoils) <= max(best_return, game.spec.min_return) + 1e-9


def test_garbage_with_a_jack_does_not_pay():
    """The first seat of Kuhn Poker has -1/18 against nash; refusing to play jacks used to make it +.249."""
    game = make_game("KuhnPoker")
    best = best_response(game, "kuhn/nash", 0).policy
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash", seat="first", disable_env_checker=True)
    values = [play(env, seed, best, lambda turn: turn.information_state.startswith("J")) for seed in range(600)]
    assert sum(values) / len(values) < -1 / 18


@pytest.mark.parametrize("on_invalid", ["retry", "forfeit"])
def test_garbage_in_sokoban_is_not_a_success_and_below_the_expert(on_invalid):
    env = gym.make("mage/Sokoban-v0", on_invalid=on_invalid, disable_env_checker=True)
    expert = make_opponent("sokoban/expert", make_game("Sokoban"))
    for seed in range(5):
        garbage = play(env, seed, expert, lambda turn: True)
        assert not is_success(env.unwrapped.hands)
        assert garbage <= -0.7 < play(env, seed, expert, lambda turn: False)


def test_an_illegal_answer_in_sokoban_costs_one_move():
    env = gym.make("mage/Sokoban-v0", disable_env_checker=True)
    env.reset(seed=3)
    paid = []
    for action in ("garbage", "up", "", "up, down, up"):
        env.step(action)
        paid.append(env.unwrapped.hand.state.returns[0])
    assert paid == pytest.approx([-0.1, -0.2, -0.3, -0.6])


def answer_of(env, rng):
    """Return the action of an untrained player: a legal one, for games with free text the first shown."""
    names = env.unwrapped.hand.turn(env.unwrapped.seat).legal_actions
    return str(rng.choice(names)) if names else "search[shirt]"


def rest(env, answers):
    """Return the return from here on, in a copy of the environment."""
    env, total, terminated = deepcopy(env), 0.0, False
    while not terminated:
        _, reward, terminated, truncated, _ = env.step(answers(env))
        total, terminated = total + reward, terminated or truncated
    return total


# ALFWorld's engine has no copies, and its tasks pay nothing but success.
OPTIONS = {"mage/OpenSpiel-v0": {"game": "goofspiel(num_cards=3)"}}
IDS = [
    name for name in sorted(gym.registry) if re.fullmatch(r"mage/\w+-v0", name) and not name.startswith("mage/ALFWorld")
]


@pytest.mark.parametrize("on_invalid", ["retry", "forfeit"])
@pytest.mark.parametrize("env_id", mark_params(IDS, step=3))
def test_garbage_from_any_position_is_no_better_than_the_best_of_some_play(env_id, on_invalid):
    env = gym.make(env_id, on_invalid=on_invalid, disable_env_checker=True, **OPTIONS.get(env_id, {}))
    rng = np.random.default_rng(7)
    for seed in range(6):
        env.reset(seed=seed)
        over = False
        while not over:
            garbage = rest(env, lambda env: "garbage")
            plays = [rest(env, lambda env: answer_of(env, rng)) for _ in range(12)]
            assert garbage <= max(plays) + 1e-9, f"seed {seed}: {garbage} against {max(plays)}"
            _, _, terminated, truncated, _ = env.step(answer_of(env, rng))
            over = terminated or truncated
