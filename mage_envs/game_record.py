"""`GameRecord`: everything about a game besides its rules, ours and that of other packages alike.

    [project.entry-points."mage_envs.records"]
    my-games = "my_games.record:RECORDS"

A record is plain data beside the rules. Its parts are names (`module:NAME`) that are imported when they are used, so
that a record costs nothing and a game with a missing engine costs one row of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mage_envs.loading.plugins import find_entry_points, warn_of
from mage_envs.registry import register_game
from mage_envs.settings import GameSettings

GROUP = "mage_envs.records"
"""Entry-point group in which other packages announce records: value = `module:NAME` of a record or of several."""


@dataclass(frozen=True, kw_only=True)
class GameRecord:
    """One game, and what the commands know of it."""

    name: str
    """Name in the ids `mage/<name>-v0` and `mage/<name>-Meta-v0`."""
    entry_point: str
    """`module:Class` of the rules."""
    settings: GameSettings | str | None = None
    """Settings of prompts and training with the reference rows of evaluations, or their `module:NAME`."""
    opponents: Mapping[str, str] = field(default_factory=dict)
    """Prefix of the opponents' names, to the module that registers these opponents, their pools and their split."""
    finder: str = ""
    """`module:function` of a game that stands for many, see `register_game`."""
    panels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a panel without a size, to fields of `mage_envs.benchmarks.Panel`. `ids` may be a `module:function`."""
    presets: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    """Name in presets of training (`kuhn` of `mage-kuhn`), to fields of the run and options of the environment."""
    small_models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a preset that trains a small model on a CPU (`kuhn` of `mini-kuhn`), to fields of the run."""
    doctor: str = ""
    """`module:function` that yields rows of `mage doctor`: name and finding."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Word of `mage doctor WORD:FOLDER`, to the `module:function` that yields rows about such a folder."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Name of a subcommand of `mage serve`, to its `module:function`."""
    page: str = ""
    """File of the game's page in the folder of the docs. It is deleted with the game, unless other games share it."""
    belongings: tuple[str, ...] = ()
    """Paths in the repository, as glob patterns, that can be deleted with the game: rules, opponents, tests."""


RECORDS: dict[str, GameRecord] = {}
"""Registered records by the name of the game, in the order of the docs."""


def register_record(record: GameRecord) -> None:
    """Register a game with everything that its record says.

    Raises:
        ValueError: As `register_game`.
    """
    register_game(
        record.name,
        record.entry_point,
        settings=record.settings,
        opponents=record.opponents,
        finder=record.finder,
    )
    RECORDS[record.name] = record


def as_records(value: GameRecord | Iterable[GameRecord]) -> tuple[GameRecord, ...]:
    """Return the records of a module, which names one or several."""
    return (value,) if isinstance(value, GameRecord) else tuple(value)


def load_records() -> None:
    """Register the records that installed packages announce. One that cannot be loaded is ignored with a warning."""
    for point in find_entry_points(GROUP):
        try:
            for record in as_records(point.load()):
                register_record(record)
        except Exception as error:
            # A module of another package may raise anything, and must not stop this process.
            warn_of(point, "Records", error)
