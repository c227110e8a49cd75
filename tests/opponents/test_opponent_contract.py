"""What every registered opponent of the two table games must keep to."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from mage_envs.core import ExactPolicy, Policy, TextGame, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.table import TableGame
from mage_envs.games.tictactoe import TicTacToe
from opponents import DeclaresDeterminism, list_opponents, make_opponent, opponent_info
from opponents.exact.tree import positions

GAMES: dict[str, TableGame] = {"KuhnPoker": KuhnPoker(), "TicTacToe": TicTacToe()}
CASES = [(game, name) for game in GAMES for name in list_opponents(game)]


@cache
def turns(game: str) -> tuple[Turn, ...]:
    """Every turn of Kuhn Poker; every 37th of Tic-Tac-Toe."""
    nodes = [n for n in positions([root for _, root in GAMES[game].roots()]) if n.player is not None]
    return tuple(node.turn() for node in nodes[:: 37 if game == "TicTacToe" else 1])


def play(game: TextGame, policies: tuple[Policy, Policy], seed: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """One hand, all legal: the actions and the returns."""
    streams = np.random.default_rng(seed).spawn(3)
    game.reset(streams[2])
    for policy, rng in zip(policies, streams):
        policy.reset(rng)
    actions = []
    while (player := game.current_player()) is not None:
        action = policies[player].act(game.turn(player))
        assert action in game.legal_actions()
        game.apply(action)
        actions.append(action)
    return tuple(actions), game.returns()


@pytest.mark.parametrize(("game", "name"), CASES)
def test_hands_are_legal_and_a_function_of_the_generator(game: str, name: str) -> None:
    rules = GAMES[game]
    first, second = make_opponent(name, rules), make_opponent(name, rules)
    for seed in range(12):
        for seat in (0, 1):
            other = make_opponent("uniform", rules)
            hand = play(rules, (first, other) if seat == 0 else (other, first), seed)
            assert hand == play(rules, (second, other) if seat == 0 else (other, second), seed)


@pytest.mark.parametrize(("game", "name"), CASES)
def test_distributions_are_right_and_what_is_sampled(game: str, name: str) -> None:
    policy = make_opponent(name, GAMES[game])
    if not isinstance(policy, ExactPolicy):
        assert name in ("mcts", "ismcts", "counting")
        return
    policy.reset(np.random.default_rng(11))
    draws = 4000 if game == "KuhnPoker" else 1000
    for turn in turns(game):
        row = policy.distribution(turn)
        assert set(row) <= set(turn.legal_actions)
        assert all(probability >= 0 for probability in row.values())
        assert sum(row.values()) == pytest.approx(1, abs=1e-9)
    for turn in turns(game)[:: 1 if game == "KuhnPoker" else 20]:
        row = policy.distribution(turn)
        seen = Counter(policy.act(turn) for _ in range(draws))
        for action in turn.legal_actions:
            chance = row.get(action, 0.0)
            assert abs(seen[action] / draws - chance) <= 4.5 * (chance * (1 - chance) / draws) ** 0.5 + 1e-9


@pytest.mark.parametrize(("game", "name"), CASES)
def test_determinism_is_declared_and_true(game: str, name: str) -> None:
    policy = make_opponent(name, GAMES[game])
    assert isinstance(policy, DeclaresDeterminism)
    assert isinstance(policy.deterministic, bool)
    if isinstance(policy, ExactPolicy):
        sure = all(max(policy.distribution(turn).values()) == 1 for turn in turns(game))
        assert policy.deterministic == sure
        rng, twin = np.random.default_rng(5), np.random.default_rng(5)
        policy.reset(rng)
        for turn in turns(game):
            policy.act(turn)
        twin.random(0 if policy.deterministic else len(turns(game)))
        assert rng.random() == twin.random(), "deterministic: no number; others: one per decision"


@pytest.mark.parametrize(("game", "name"), CASES)
def test_policies_pickle_and_hold_no_game(game: str, name: str) -> None:
    policy = make_opponent(name, GAMES[game])
    assert not any(isinstance(value, TextGame) for value in vars(policy).values())
    copied = pickle.loads(pickle.dumps(policy))
    other = make_opponent("uniform", GAMES[game])
    assert play(GAMES[game], (policy, other), 3) == play(GAMES[game], (copied, other), 3)


@pytest.mark.parametrize("game", GAMES)
def test_no_two_opponents_are_the_same_policy(game: str) -> None:
    tables = {}
    for name in list_opponents(game):
        policy = make_opponent(name, GAMES[game])
        if isinstance(policy, ExactPolicy):
            tables[name] = [policy.distribution(turn) for turn in turns(game)]
    for one, two in combinations(tables, 2):
        alias = opponent_info(one).alias_of == two or opponent_info(two).alias_of == one
        same = all(
            abs(a.get(action, 0) - b.get(action, 0)) < 1e-12
            for a, b in zip(tables[one], tables[two])
            for action in {*a, *b}
        )
        assert same == alias, (one, two)
