"""Transfer: what one episode of each task of a series is worth in every other task, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.transfer import transfer


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
