"""Transfer: what one episode of each task of a series is worth in every other task, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game, NotEnumerable
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.bayes import BayesSolution, Meeting
from mage_envs.opponents.exact.series import order_tasks
from mage_envs.opponents.pools import PoolSpec, as_pool


def gains_of(game: Game, opponents: str) -> Mapping[str, Mapping[str, float]]:
    """Return for each task the gain in every task after one episode of it, against these opponents.

    Raises ValueError if the game is not a series of tasks from a table.
    """
    if not isinstance(game, TableSeries):
        raise ValueError(f"{game.title} is not a series of tasks from a table. Use one such as Encounters.")
    gains = transfer(game, opponents)
    return {name: dict(zip(game.names, row, strict=True)) for name, row in zip(game.names, gains, strict=True)}


def blocks(game: Game, opponents: str, gains: Mapping[str, Mapping[str, float]]) -> list[Block]:
    """Return the gains as a table with a title."""
    title = f"{game.title} against {opponents}: gain in {game.spec.unit}, in the task of the column after one episode"
    # Rounding may leave -0.0, which would be printed with its sign.
    rows = [[name, *(number(round(gain, 9) + 0.0) for gain in row.values())] for name, row in gains.items()]
    notes = ["of the task of the row, played for the sake of the column; exact"]
    return [title, *notes, TextTable(["after", *gains], rows)]


def transfer(game: Game, pool: PoolSpec) -> list[list[float]]:
    """Return the gains in the task of each column after one episode of the task of each row.

    A gain is the value of the second task after the most informative play of the first one, less its value without
    memory. The same task may come twice.

    Args:
        game: Series of tasks from a table.
        pool: Opponents and their prior probabilities.

    Raises:
        NotEnumerable: If the tasks are not from a table.
        NotExact: If the probabilities of an opponent are unknown.
    """
    if not isinstance(game, TableSeries):
        raise NotEnumerable(f"{game.spec.name} is not a series of tasks from a table, so transfer has no exact value.")
    tasks = range(len(game.tasks))
    return [
        [_value_of_second(game, pool, (first_task, task)) - _value_of_only(game, pool, task) for task in tasks]
        for first_task in tasks
    ]


def _value_of_second(game: Game, pool: PoolSpec, order: tuple[int, int]) -> float:
    """Return the value of the second of two tasks, if the first one is played to learn for it."""
    series, opponents = order_tasks(game, as_pool(pool), [order])
    return BayesSolution(Meeting(series, opponents, 0, episodes=2, alternate=False), "last").value.per_episode[-1]


def _value_of_only(game: Game, pool: PoolSpec, task: int) -> float:
    """Return the value of a task without memory."""
    series, opponents = order_tasks(game, as_pool(pool), [(task,)])
    return BayesSolution(Meeting(series, opponents, 0, episodes=1, alternate=False), "last").value.total
