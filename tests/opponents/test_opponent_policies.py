"""Each built-in opponent does what its description says."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import ACTIONS, TicTacToe
from mage_envs.opponents import RulePolicy, TabularPolicy, make_opponent
from mage_envs.opponents.builtin import Uniform
from mage_envs.opponents.search.mcts import MCTS
from tests.opponents.dealing import dealt, play

TTT = TicTacToe()
KUHN = KuhnPoker()


def score(game: Game, policies: tuple[Policy, Policy], hands: int) -> list[float]:
    """The first player's returns."""
    return [play(game, policies, seed)[1][0] for seed in range(hands)]


def probabilities(name: str, state: str) -> dict[str, float]:
    legal = ("fold", "call") if state.endswith("b") else ("check", "bet")
    policy = make_opponent(name, KUHN)
    assert isinstance(policy, RulePolicy)
    return policy.distribution(Turn(0, "", legal, state))


ORDERS = {
    1: "11,00,02,20,22,01,10,12,21",
    2: "00,02,20,22,11,01,10,12,21",
    3: "01,10,12,21,11,00,02,20,22",
    4: "00,11,22,02,20,01,10,12,21",
    5: "02,11,20,00,22,01,10,12,21",
    6: "22,20,02,00,11,21,12,10,01",
}


@pytest.mark.parametrize("number", ORDERS)
def test_patterns_take_the_first_empty_cell_of_their_order(number: int) -> None:
    policy = make_opponent(f"tictactoe/pattern-{number}", TTT)
    cells = [f"({int(cell[0]) + 1}, {int(cell[1]) + 1})" for cell in ORDERS[number].split(",")]
    assert sorted(cells) == list(ACTIONS)
    for num_taken in range(9):
        legal = tuple(action for action in ACTIONS if action not in cells[:num_taken])
        assert policy.act(Turn(0, "", legal, f"board {num_taken}")) == cells[num_taken]


def test_biased_weights() -> None:
    centre = make_opponent("tictactoe/center-biased", TTT)
    corner = make_opponent("tictactoe/corner-biased", TTT)
    assert isinstance(centre, RulePolicy)
    assert isinstance(corner, RulePolicy)
    edge, far = (1 / 2) ** 2, (1 / (1 + 2**0.5)) ** 2
    row, total = centre.distribution(dealt(TTT).turn(0)), 1 + 4 * edge + 4 * far
    assert [row[a] for a in ACTIONS[:5]] == pytest.approx(
        [far / total, edge / total, far / total, edge / total, 1 / total]
    )
    row, total = corner.distribution(dealt(TTT).turn(0)), 4 + 4 * edge + far
    assert [row[a] for a in ACTIONS[:5]] == pytest.approx(
        [1 / total, edge / total, 1 / total, edge / total, far / total]
    )


@pytest.mark.parametrize(
    ("name", "bets", "calls"),
    [
        ("kuhn/conservative", "K", "K"),
        ("kuhn/aggressive", "JQK", "QK"),
        ("kuhn/intermediate", "QK", "K"),
        ("kuhn/maniac", "JQK", "JQK"),
        ("kuhn/caller", "", "JQK"),
        ("kuhn/bluffer", "JK", "K"),
        ("kuhn/passive", "", ""),
        ("kuhn/rock", "K", "K"),
    ],
)
def test_pure_kuhn_opponents(name: str, bets: str, calls: str) -> None:
    for card in "JQK":
        for betting in ("", "p"):
            assert probabilities(name, card + betting) == {"bet" if card in bets else "check": 1.0}
        for betting in ("b", "pb"):
            assert probabilities(name, card + betting) == {"call" if card in calls else "fold": 1.0}


SOFT = {
    "conservative": ".03 .05 .85 / .03 .10 .95 / .02 .12 .97",
    "aggressive": ".75 .75 .95 / .80 .85 .97 / .35 .90 .98",
    "station": ".03 .03 .15 / .05 .05 .30 / .60 .95 .98",
    "scared": ".70 .55 .75 / .75 .65 .85 / .02 .12 .75",
    "intermediate": ".30 .10 .85 / .33 .10 .95 / .03 .40 .98",
}


@pytest.mark.parametrize("name", SOFT)
def test_soft_kuhn_opponents(name: str) -> None:
    opening_bets, bets_after_pass, call = (part.split() for part in SOFT[name].split("/"))
    for index, card in enumerate("JQK"):
        assert probabilities(f"kuhn/soft-{name}", card)["bet"] == float(opening_bets[index])
        assert probabilities(f"kuhn/soft-{name}", card + "p")["bet"] == float(bets_after_pass[index])
        assert probabilities(f"kuhn/soft-{name}", card + "b")["call"] == float(call[index])
        assert probabilities(f"kuhn/soft-{name}", card + "pb")["call"] == float(call[index])


def test_nash_takes_alpha() -> None:
    assert probabilities("kuhn/nash:0.2", "J")["bet"] == 0.2
    assert probabilities("kuhn/nash:0.2", "K")["bet"] == pytest.approx(0.6)
    assert probabilities("kuhn/nash:0.2", "Qpb")["call"] == pytest.approx(0.2 + 1 / 3)
    assert probabilities("kuhn/nash", "J")["bet"] == pytest.approx(1 / 6)


def test_minimax_never_loses_and_knows_all_best_moves() -> None:
    minimax = make_opponent("minimax", TTT)
    assert isinstance(minimax, RulePolicy)
    assert min(score(TTT, (minimax, Uniform()), 150)) >= 0
    assert max(score(TTT, (Uniform(), minimax), 150)) <= 0
    assert set(score(TTT, (minimax, make_opponent("minimax", TTT)), 30)) == {0.0}
    assert minimax.distribution(dealt(TTT).turn(0)) == pytest.approx(dict.fromkeys(ACTIONS, 1 / 9))
    assert minimax.distribution(dealt(TTT, 0, "(1, 1)").turn(1)) == {"(2, 2)": 1.0}


def test_mcts_is_reproducible_and_varies() -> None:
    def hands(seed: int) -> list[tuple[str, ...]]:
        first_policy, second_policy = make_opponent("mcts:20", TTT), make_opponent("mcts:20", TTT)
        return [play(TTT, (first_policy, second_policy), 100 * seed + number)[0] for number in range(6)]

    assert hands(1) == hands(1)
    assert hands(1) != hands(2)
    assert len(set(hands(1))) > 1


def test_mcts_follows_the_history_it_is_given() -> None:
    """Set the state up again if a history does not continue the last one."""
    policy = make_opponent("mcts:500", TTT)
    policy.reset(np.random.default_rng(0))
    for moves, winning in (
        (("(1, 1)", "(2, 1)", "(1, 2)", "(2, 2)"), "(1, 3)"),
        (("(3, 1)", "(1, 1)", "(3, 2)", "(1, 2)"), "(3, 3)"),
    ):
        assert policy.act(dealt(TTT, 0, *moves).turn(0)) == winning


def test_mcts_strength() -> None:
    strong = make_opponent("mcts:1000", TTT)
    assert score(TTT, (strong, make_opponent("tictactoe/pattern-1", TTT)), 5) == [1.0] * 5
    assert min(score(TTT, (strong, Uniform()), 20)) >= 0
    assert max(score(TTT, (Uniform(), strong), 20)) <= 0


def test_mcts_errors() -> None:
    with pytest.raises(ValueError, match=r"^Opponent 'mcts': simulations must be from 1 to 10,000,000, got 0\.$"):
        make_opponent("mcts:0", TTT)
    with pytest.raises(ValueError, match=r"^Opponent 'mcts' cannot play KuhnPoker, which has hidden information"):
        MCTS(KUHN)
    policy = make_opponent("mcts:10", TTT)
    policy.reset(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"^Opponent 'mcts' needs the whole history of the hand"):
        policy.act(Turn(1, "", ACTIONS[1:], "X........"))


def test_uniform_needs_legal_actions() -> None:
    with pytest.raises(ValueError, match=r"^Opponent 'uniform' requires legal actions"):
        Uniform().act(Turn(0, "", (), ""))


def test_tables_are_checked() -> None:
    with pytest.raises(ValueError, match=r"^Probabilities at 'J' must be at least 0 and sum to 1, got"):
        TabularPolicy({"J": {"check": 0.5, "bet": 0.6}})
    with pytest.raises(ValueError, match=r"^Probabilities at 'J' must be"):
        TabularPolicy({"J": {"check": 1.5, "bet": -0.5}})
    policy = TabularPolicy({"J": {"check": 1.0, "bet": 0.0}})
    with pytest.raises(ValueError, match=r"^The policy's table has no row for information state 'Q'; its rows are J"):
        policy.act(Turn(0, "", ("check", "bet"), "Q"))
    with pytest.raises(ValueError, match=r"^'check' at 'J' is not legal; choose one of: fold, call\.$"):
        policy.act(Turn(0, "", ("fold", "call"), "J"))
