"""Ceilings of a game: exact best response values in a game, per opponent and per pool of unknown opponents."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.benchmarks.executors.jobs import Executor, run_in_order
from mage_envs.cli.game_options import game_with
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game
from mage_envs.opponents import (
    OpponentPool,
    UnknownOpponent,
    as_pool,
    list_opponents,
    list_pools,
    make_opponent,
    opponent_info,
)
from mage_envs.opponents.exact import (
    NotExact,
    TooManyStates,
    bayes_value,
    best_response,
    nash_conv,
)
from mage_envs.opponents.exact.single_hands import SingleHands
from mage_envs.opponents.exact.tree import exact_policy
from mage_envs.progress import Progress
from mage_envs.tree import is_enumerable

Named = tuple[str, Mapping[str, Any]]
"""Name and options of a game, the form in which it is sent to a worker."""
Value = str | int | float | None
"""Value of a cell; None if it is not known."""
SECONDS = "seconds"
"""Column with one decimal."""
_SEATS = ("first", "second")


def ceilings(
    game: str,
    options: Mapping[str, Any],
    *,
    opponents: str | None = None,
    episodes: int = 3,
    hands: int = 1,
    executor: Executor,
) -> list[ValueTable]:
    """Return the exact ceilings of a game: a table of its opponents, and one of the pools that play it.

    Args:
        opponents: Pool of the second table, as in `pool:kuhn/paper` (default: every registered pool that fits).
        episodes: Number of episodes in the Bayes columns.
        hands: Hands per episode in the Bayes columns.

    Raises:
        ValueError: If the tree of the game cannot be enumerated.
    """
    rules = game_with(game, options)
    if not is_enumerable(rules):
        raise ValueError(f"{rules.title} has no enumerable tree, so its exact ceilings are n/a.")
    sent = game, options
    pools = [opponents] if opponents else [f"pool:{name}" for name in list_pools()]
    fitting = [name for name in pools if _fits(name, rules, opponents is not None)]
    tables = [opponent_table(rules, sent, executor)]
    if fitting:
        tables.append(pool_table(rules, sent, fitting, (episodes, hands), executor))
    return tables


class ValueTable(NamedTuple):
    """A table with its values, for text and for JSON."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str]

    def blocks(self) -> list[Block]:
        """Return the title, the table and the notes."""
        cells = [[_text(value, column) for value, column in zip(row, self.columns)] for row in self.rows]
        return [self.title, TextTable(self.columns, cells), *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values, with all digits."""
        rows = [dict(zip(self.columns, row)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def _text(value: Value, column: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1f}" if column == SECONDS and value is not None else number(value)


def _fits(name: str, game: Game, is_explicit: bool) -> bool:
    """Return True if the pool's opponents play this game.

    If they do not, the error is raised if the user `asked` for the pool.
    """
    try:
        for entry in as_pool(name).entries:
            make_opponent(entry, game)
    except (ValueError, UnknownOpponent):
        # The default is every registered pool, and most of them belong to other games.
        if is_explicit:
            raise
        return False
    return True


def opponent_table(game: Game, sent: Named, executor: Executor) -> ValueTable:
    """Return a table of the opponents with exact probabilities.

    The columns are the best response value and the best win probability by the learner's seat, and the NashConv.
    """
    start = time.perf_counter()
    seats = range(game.spec.players)
    titles = _SEATS if game.spec.players == 2 else tuple(f"seat {seat}" for seat in seats)
    # In a general-sum game a positive return need not be a win.
    wins = () if game.spec.general_sum else [f"wins {title}" for title in titles]
    columns = ["opponent", *titles, "mean", *wins, "NashConv"]
    names = list_opponents(game.spec.name)
    progress = Progress(f"Ceilings of {game.title}", len(names), "opponents")
    rows, left_out = [], []
    for finished, (row, reason) in enumerate(run_in_order(executor, opponent_row, sent, names), start=1):
        progress(finished)
        rows += [row] if row else []
        left_out += [f"n/a: {reason}"] if reason else []
    title = f"{game.title}: value of the best response in {game.spec.unit} per hand, by the learner's seat"
    title += "; its chance to win" if wins else ""
    spent = f"{time.perf_counter() - start:.1f} s"
    title = f"{title}; what the opponent itself concedes to two best responses ({spent})"
    return ValueTable(title, columns, rows, left_out)


def opponent_row(name: str, options: Mapping[str, Any], opponent: str) -> tuple[list[Value], str]:
    """Return the row of one opponent, or the reason why its exact values are unknown."""
    game = game_with(name, options)
    seats = range(game.spec.players)
    try:
        policy = exact_policy(opponent, game)
    except ValueError as error:
        # A search that plays other games of OpenSpiel, a solver that would take hours, or no exact probabilities.
        return [], str(error)
    alias = opponent_info(opponent).alias_of
    values = [best_response(game, policy, seat).value for seat in seats]
    wins = [best_response(game, policy, seat, "success").value for seat in seats if not game.spec.general_sum]
    # The opponent plays every seat: the value measures its loss to a best response in each of them.
    conv = nash_conv(game, [policy] * game.spec.players)
    label = f"{opponent} (= {alias})" if alias else opponent
    return [label, *values, sum(values) / len(values), *wins, conv], ""


def pool_table(
    game: Game, sent: Named, pools: Sequence[str], lengths: tuple[int, int], executor: Executor
) -> ValueTable:
    """Return a table of the pools: the blind, Bayes-optimal and best response values."""
    episodes, hands = lengths
    columns = ["pool", "blind", *(f"Bayes {k}" for k in range(1, episodes + 1))]
    columns += [f"best {episodes}", "states", SECONDS, "best response"]
    pool_rows = list(run_in_order(executor, pool_row, (*sent, lengths), pools))
    head = f"{game.title}: {game.spec.unit} per hand against an opponent drawn from a pool, mean over the seats; "
    head += f"blind and best response: in episode {episodes}; "
    head += f"Bayes: episodes of {hands} hand{'s' * (hands > 1)}, optimal for their sum; "
    head += f"best {episodes}: for the last one"
    return ValueTable(head, columns, [row for row, _ in pool_rows], [note for _, notes in pool_rows for note in notes])


def pool_row(
    name: str, options: Mapping[str, Any], lengths: tuple[int, int], pool_name: str
) -> tuple[list[Value], list[str]]:
    """Return the row of one pool, and the notes below the table."""
    game, pool = game_with(name, options), as_pool(pool_name)
    notes: list[str] = []
    seats = range(game.spec.players)
    blind: float | None = None
    known_value: float | None = None
    try:
        single = SingleHands(game=game, pool=pool, seats=seats, objective="returns", samples=0, seed=0)
        # Opponents may change between episodes. The head of the table promises the values of the last one.
        values = single.values(lengths[0] - 1)
        blind, known_value = values.blind, values.known
    except NotExact as error:
        notes.append(f"n/a: {error}")
    cells = _bayes_cells(game, pool, *lengths, notes)
    # The two computations may fail for the same reason. The dict drops the repetition and keeps the order.
    return [pool_name, blind, *cells, known_value], list(dict.fromkeys(notes))


def _bayes_cells(game: Game, pool: OpponentPool, episodes: int, hands: int, notes: list[str]) -> list[Value]:
    """Return the Bayes cells of a pool. If it has none, append a note and return empty cells."""
    options: dict[str, Any] = {"episodes": episodes, "hands": hands}
    try:
        total_value, last_value = bayes_value(game, pool, **options), bayes_value(game, pool, **options, credit="last")
    except (NotExact, TooManyStates) as error:
        notes.append(f"n/a: {error}")
        # One cell per episode, then those of best, states and seconds.
        return [None] * (episodes + 3)
    # `bayes_value` sums over the hands of an episode, but the table is per hand.
    cells = [value / hands for value in total_value.per_episode]
    return [*cells, last_value.per_episode[-1] / hands, total_value.states, total_value.seconds + last_value.seconds]
