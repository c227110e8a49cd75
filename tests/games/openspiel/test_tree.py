"""The trees of small games: OpenSpiel's own exact numbers, and the errors of games without a tree."""

from __future__ import annotations

import pyspiel
import pytest

from mage_envs.core import NotEnumerable
from mage_envs.games.openspiel.openspiel_game import OpenSpiel, TooLarge
from mage_envs.games.openspiel.registered import ConnectFour, LeducPoker
from mage_envs.opponents.exact import best_response, nash_conv, policy_value
from mage_envs.spiel.size import count_histories, estimate_histories
from mage_envs.tree import is_enumerable, roots_of


@pytest.mark.parametrize(
    "text",
    [
        "leduc_poker(suit_isomorphism=True)",
        "kuhn_poker",
        "liars_dice(dice_sides=3)",
        "nim(pile_sizes=1;2;3)",
        "goofspiel(num_cards=3)",
        "matrix_rps",
        "hex(board_size=2)",
    ],
)
def test_exploitability_is_openspiel_s(text: str) -> None:
    game = pyspiel.load_game(text)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    expected = 2 * pyspiel.exploitability(game, pyspiel.UniformRandomPolicy(game))
    assert nash_conv(OpenSpiel(text), ["uniform", "uniform"]) == pytest.approx(expected, abs=1e-9)


def test_leduc_in_both_forms_is_one_game() -> None:
    merged, suited = LeducPoker(), OpenSpiel("leduc_poker")
    for seat in (0, 1):
        assert best_response(merged, "uniform", seat).value == pytest.approx(
            best_response(suited, "uniform", seat).value, abs=1e-12
        )
    assert policy_value(merged, ["uniform", "first"]) == pytest.approx(policy_value(suited, ["uniform", "first"]))


def test_only_small_games_are_enumerable() -> None:
    assert is_enumerable(LeducPoker())
    assert not is_enumerable(ConnectFour())
    with pytest.raises(NotEnumerable, match=r"chess has more than 1,000,000 histories"):
        OpenSpiel("chess").initial_states()
    assert roots_of(LeducPoker()) is roots_of(LeducPoker()), "one tree for all"


def test_histories_are_counted() -> None:
    assert count_histories("kuhn_poker", 1000) == 1 + 3 + 6 * (1 + 9 - 1)
    assert count_histories("leduc_poker", 10_000) == 9457
    assert count_histories("leduc_poker", 9456) is None
    assert estimate_histories("chess") == float("inf")
    assert count_histories("chess", 10_000) is None


def test_chance_may_come_at_any_time_but_not_hang_on_moves() -> None:
    assert len(OpenSpiel("catch(rows=4,columns=3)").initial_states()) == 3
    pig = OpenSpiel("pig(winscore=2,horizon=4,diceoutcomes=3)")
    assert sum(chance for chance, _ in pig.initial_states()) == pytest.approx(1)
    with pytest.raises(TooLarge, match="the odds of chance depend on the players' actions"):
        OpenSpiel("first_sealed_auction(players=3,max_value=3)").initial_states()
