"""`mage-bench ceilings`: what anybody could earn in a game, exactly: per opponent, and per pool of unknown ones."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.evaluation.report import NOT_KNOWN, aligned, number
from mage_envs.core import ExactPolicy, Game
from mage_envs.terminal.json_options import game_with, read_object
from opponents import OpponentPool, UnknownOpponent, as_pool, list_opponents, list_pools, make_opponent, opponent_info
from opponents.exact import (
    NotExact,
    Objective,
    TooManyStates,
    bayes_value,
    best_nonadaptive,
    best_response_value,
    nash_conv,
)
from opponents.exact.tree import is_enumerable

_SEATS = ("first", "second")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench ceilings`."""
    parser.add_argument("game", metavar="GAME", help="a game whose tree is at hand, as in KuhnPoker")
    parser.add_argument("--game-kwargs", metavar="JSON", help="""options of the game, as in '{"reveal": "always"}'""")
    parser.add_argument("--pool", metavar="NAME", action="append", help="a pool by name (default: all that fit)")
    parser.add_argument("--episodes", type=int, default=3, metavar="K", help="episodes of the Bayes columns (3)")
    parser.add_argument("--hands", type=int, default=1, metavar="H", help="hands per episode of the Bayes columns (1)")
    parser.add_argument("--no-bayes", action="store_true", help="leave the Bayes columns out")


def run(arguments: argparse.Namespace) -> None:
    """Writes the tables to stdout."""
    if arguments.episodes < 1 or arguments.hands < 1:
        raise ValueError("--episodes and --hands must be at least 1.")
    game = game_with(arguments.game, read_object("--game-kwargs", arguments.game_kwargs))
    if not is_enumerable(game):
        raise ValueError(f"{game.facts.name} has no tree at hand, so that it has no exact ceilings: they are n/a.")
    sys.stdout.write("\n".join(opponent_table(game)) + "\n")
    pools = [f"pool:{name.removeprefix('pool:')}" for name in arguments.pool or list_pools()]
    fitting = [(name, pool) for name in pools if (pool := _fitting(name, game, arguments.pool is not None))]
    if fitting:
        bayes = None if arguments.no_bayes else (arguments.episodes, arguments.hands)
        sys.stdout.write("\n" + "\n".join(pool_table(game, fitting, bayes)) + "\n")


def _fitting(name: str, game: Game, asked: bool) -> OpponentPool | None:
    """The pool, None where it is not for this game and nobody asked for it."""
    pool = as_pool(name)
    try:
        for entry in pool.entries:
            make_opponent(entry, game)
    except (ValueError, UnknownOpponent):
        if asked:
            raise
        return None
    return pool


def opponent_table(game: Game) -> list[str]:
    """Per opponent with exact probabilities: best response value and best winning chance by seat, own NashConv."""
    started = time.perf_counter()
    seats = range(game.facts.players)
    titles = _SEATS if game.facts.players == 2 else tuple(f"seat {seat}" for seat in seats)
    columns = ["opponent", *titles, "mean", *(f"wins {title}" for title in titles), "NashConv"]
    rows = []
    for name in list_opponents(game.facts.name):
        policy = make_opponent(name, game)
        if not isinstance(policy, ExactPolicy):
            continue
        alias = opponent_info(name).alias_of
        values = [best_response_value(game, policy, seat) for seat in seats]
        wins = [best_response_value(game, policy, seat, "success") for seat in seats]
        conv = nash_conv(game, [policy] * game.facts.players)
        label = f"{name} (= {alias})" if alias else name
        rows.append([label, *(number(v) for v in (*values, sum(values) / len(values), *wins, conv))])
    title = f"{game.facts.name}: value of the best response in {game.facts.unit} per hand, by the learner's seat; "
    title += "its chance to win"
    spent = f"{time.perf_counter() - started:.1f} s"
    return [f"{title}; what the opponent itself concedes to two best responses ({spent})", *aligned(columns, rows)]


def pool_table(game: Game, pools: Sequence[tuple[str, OpponentPool]], bayes: tuple[int, int] | None) -> list[str]:
    """Per pool: the best that is blind, Bayes-optimal over some episodes, and that knows the opponent."""
    episodes, hands = bayes or (0, 0)
    columns = ["pool", "blind", *(f"Bayes {k}" for k in range(1, episodes + 1))]
    columns += [f"best {episodes}", "states", "seconds"] if bayes else []
    rows: list[list[str]] = []
    notes: list[str] = []
    for name, pool in pools:
        blind, known = _blind_and_known(game, pool, "returns")
        row = [name, number(blind)]
        if bayes:
            row += _bayes_cells(game, pool, episodes, hands, notes)
        rows.append([*row, number(known)])
    columns.append("best response")
    head = f"{game.facts.name}: {game.facts.unit} per hand against an opponent drawn from a pool, mean over the seats"
    if bayes:
        head += f"; Bayes: episodes of {hands} hand{'s' * (hands > 1)}, optimal for their sum; "
        head += f"best {episodes}: for the last one"
    return [head, *aligned(columns, rows), *notes]


def _bayes_cells(game: Game, pool: OpponentPool, episodes: int, hands: int, notes: list[str]) -> list[str]:
    options: dict[str, Any] = {"episodes": episodes, "hands": hands}
    try:
        all_of_it, last = bayes_value(game, pool, **options), bayes_value(game, pool, **options, credit="last")
    except (NotExact, TooManyStates) as error:
        notes.append(f"n/a: {error}")
        return [NOT_KNOWN] * (episodes + 3)
    cells = [number(value / hands) for value in all_of_it.per_episode]
    seconds = f"{all_of_it.seconds + last.seconds:.1f}"
    return [*cells, number(last.per_episode[-1] / hands), f"{all_of_it.states:,}", seconds]


def _blind_and_known(game: Game, pool: OpponentPool, objective: Objective) -> tuple[float | None, float | None]:
    seats = range(game.facts.players)
    try:
        blind = [best_nonadaptive(game, pool, seat, objective).value for seat in seats]
        known = [
            sum(
                weight * best_response_value(game, entry, seat, objective)
                for entry, weight in zip(pool.entries, pool.weights, strict=True)
            )
            for seat in seats
        ]
    except NotExact:
        return None, None
    return sum(blind) / len(seats), sum(known) / len(seats)
