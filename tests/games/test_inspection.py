"""The inspection game: payoffs, and the information of each seat."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mage_envs.games.inspection import PLACES, WORTH, Inspection
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import best_response, policy_value
from mage_envs.tree import positions, roots_of
from tests.mage_envs.test_words import play_texts


@pytest.mark.parametrize(("inspected", "entered"), [*product(PLACES, PLACES)])
def test_only_the_place_that_is_inspected_is_safe(inspected: str, entered: str) -> None:
    state = Inspection(rounds=1).initial_state(np.random.default_rng(0)).after(inspected).after(entered)
    caught = inspected == entered
    assert state.returns == ((1, 0) if caught else (0, WORTH[entered] / 5))
    assert state.information_state(0) == f"{inspected} {'caught' if caught else 'quiet'}"
    assert (entered in state.observation(0)) == caught, "only an inspection reveals"
    assert inspected in state.observation(1)


def test_the_defender_cannot_tell_break_ins_apart() -> None:
    nodes = positions([root for _, root in roots_of(Inspection(rounds=2))])
    ends = [node.state for node in nodes if node.player is None]
    assert len(ends) == 25**2
    assert len({state.observation(0) for state in ends}) == len({state.information_state(0) for state in ends}) == 100


def test_habits() -> None:
    game = Inspection()
    for site in PLACES:
        assert policy_value(game, [f"inspect/repeat:{site}"] * 2) == pytest.approx((1, 0))
        assert best_response(game, f"inspect/repeat:{site}", 0).value == pytest.approx(1)
    # a fifth in the first round; then the place inspected last is empty, and each other is a quarter
    assert best_response(game, "inspect/avoid-last", 0).value == pytest.approx((0.2 + 0.25 + 0.25) / 3)
    # places are tried one after another: 1/5 + 1/5 + 1/5 to have found it in time, 3, 2 or 1 catches
    assert best_response(game, "inspect/repeat", 0).value == pytest.approx(0.2 * (3 + 2 + 1) / 3)
    with pytest.raises(ValueError, match="place must be one of vault, gallery.*, got 'cellar'"):
        make_opponent("inspect/repeat:cellar", game)


def test_a_conversation_in_words() -> None:
    texts = play_texts("Inspection", ["vault", "garage"], opponent="inspect/repeat:garage", rounds=2, num_episodes=1)
    assert texts[:2] == ["episode 1 first", "quiet"]
