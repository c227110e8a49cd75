"""The value of one episode of each task in every other task of a series."""

from __future__ import annotations

from mage_envs.core import Game, NotEnumerable
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.bayes import BayesSolution, Meeting
from mage_envs.opponents.exact.series import order_tasks
from mage_envs.opponents.pools import PoolSpec, as_pool


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
        [_second(game, pool, (first_task, task)) - _only(game, pool, task) for task in tasks] for first_task in tasks
    ]


def _second(game: Game, pool: PoolSpec, order: tuple[int, int]) -> float:
    """Return the value of the second of two tasks, if the first one is played to learn for it."""
    series, opponents = order_tasks(game, as_pool(pool), [order])
    return BayesSolution(Meeting(series, opponents, 0, episodes=2, alternate=False), "last").value.per_episode[-1]


def _only(game: Game, pool: PoolSpec, task: int) -> float:
    """Return the value of a task without memory."""
    series, opponents = order_tasks(game, as_pool(pool), [(task,)])
    return BayesSolution(Meeting(series, opponents, 0, episodes=1, alternate=False), "last").value.total
