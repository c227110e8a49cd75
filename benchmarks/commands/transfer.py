"""`mage transfer`: what one episode of each task of a series is worth in every other task."""

from __future__ import annotations

from typing import Annotated

import typer

from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.commands import GameKwargsOption, JsonOption, print_json
from mage_envs.cli.json_options import game_with
from mage_envs.cli.tables import TextTable, print_report
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.transfer import transfer
from mage_envs.registry import settings_of


def command(
    game: Annotated[str, typer.Argument(metavar="GAME", help="Series of tasks from a table, such as Encounters")],
    pool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Registered pool (default: the game's own opponents)")
    ] = None,
    game_kwargs: GameKwargsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what one episode of each task of a series is worth in every other task, exactly.

    Example: mage transfer Encounters
    """
    rules = game_with(game, game_kwargs or {})
    if not isinstance(rules, TableSeries):
        raise ValueError(f"{rules.title} is no series of tasks from a table. Use one such as Encounters.")
    spec = settings_of(game).opponent if pool is None else f"pool:{pool.removeprefix('pool:')}"
    gains = transfer(rules, spec)
    names = rules.names
    if as_json:
        print_json({one: dict(zip(names, row, strict=True)) for one, row in zip(names, gains, strict=True)})
        return
    title = f"{rules.title} against {spec}: gain in {rules.spec.unit}, in the task of the column after one episode"
    # Rounding may leave -0.0, which would be printed with its sign.
    cells = [[one, *(number(round(gain, 9) + 0.0) for gain in row)] for one, row in zip(names, gains, strict=True)]
    notes = ["of the task of the row, played for the sake of the column; exact"]
    print_report([title, *notes, TextTable(["after", *names], cells)])
