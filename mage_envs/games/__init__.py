"""The games of this package. Each is one module or folder here with a record of everything that belongs to it.

To add a game, write its module with a `RECORD`, a module of `mage_envs.opponents.games` that registers its opponents,
pools and split, and its tests. Then add the module below and run `python -m dev.doc_tables`. All lists of games follow.
"""

from importlib import import_module
from importlib.util import find_spec

from mage_envs.game_record import GameRecord, as_records, register_record

MODULES = (
    *("kuhn_poker", "tictactoe", "prisoners_dilemma", "ultimatum", "rock_paper_scissors", "bargaining", "inspection"),
    *("matching_pennies", "network_defense", "influence", "promises"),
    *("encounters", "openspiel.record", "sokoban.record", "alfworld.about.record", "webshop.record"),
)
"""Modules with `RECORD` or `RECORDS`. One whose file was deleted is left out, and so are its games."""


def register_games() -> None:
    """Register every game of this package. A record imports the rules of small games only."""
    for name in MODULES:
        package = f"{__name__}.{name.partition('.')[0]}"
        if find_spec(package) is None:
            continue
        module = import_module(f"{__name__}.{name}")
        records: GameRecord | tuple[GameRecord, ...] = getattr(module, "RECORDS", None) or module.RECORD
        for record in as_records(records):
            register_record(record)
