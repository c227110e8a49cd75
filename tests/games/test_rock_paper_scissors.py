"""Repeated rock, paper, scissors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mage_envs.games.rock_paper_scissors import CHOICES, RockPaperScissors
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import policy_value
from mage_envs.tree import positions, roots_of


@pytest.mark.parametrize(("own_choice", "other_choice"), [*product(CHOICES, CHOICES)])
def test_each_choice_beats_one_and_loses_to_one(own_choice: str, other_choice: str) -> None:
    state = RockPaperScissors(rounds=1).initial_state(np.random.default_rng(0)).after(own_choice).after(other_choice[0])
    wins = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    value = 1 if (own_choice, other_choice) in wins else -1 if (other_choice, own_choice) in wins else 0
    assert state.returns == (value, -value)
    assert [state.won(seat) for seat in (0, 1)] == [value > 0, value < 0]
    verdict = {1: "you win", 0: "a draw", -1: "you lose"}[value]
    assert state.observation(0).splitlines()[0] == (
        f"Round 1: you choose {own_choice}, the other player {other_choice}: {verdict}."
    )


def test_the_tree() -> None:
    nodes = positions([root for _, root in roots_of(RockPaperScissors(rounds=2))])
    assert len(nodes) == 1 + 3 + 9 + 27 + 81
    assert {node.state.returns for node in nodes if node.player is None} == {
        (value, -value) for value in (-1, -0.5, 0, 0.5, 1)
    }


@pytest.mark.parametrize(
    ("first_name", "second_name", "won"),
    [("beat", "stay", 1), ("copy", "beat", 0), ("cycle", "stay", 0), ("beat", "cycle", 0)],
)
def test_reactions_meet_each_other(first_name: str, second_name: str, won: float) -> None:
    """A round of chance, then one in which each reacts to it."""
    game = RockPaperScissors(rounds=2)
    assert 2 * policy_value(game, [f"rps/{first_name}", f"rps/{second_name}"])[0] == pytest.approx(won)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match=r"^rounds=0 must be"):
        RockPaperScissors(rounds=0)
    with pytest.raises(ValueError, match=r"^Opponent 'rps/rock': the probability must be between 0 and 1, got 2\.0"):
        make_opponent("rps/rock:2", RockPaperScissors())
