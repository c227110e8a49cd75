"""A command line with subcommands: a table of modules, of which only the one that is asked for is imported.

Such a module has `add_arguments(parser)` and `run(arguments)`. Every subcommand takes `--import`, and `module:`
before the environment's id or the game's name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import gymnasium as gym

from mage_envs import _siblings, imports

NAMED = {"env", "env_id", "game"}
"""Arguments that may name a module before a colon."""


class Command(NamedTuple):
    """One subcommand."""

    module: str
    about: str


def run_command(
    prog: str,
    about: str,
    table: Mapping[str, Command],
    arguments: Sequence[str] | None,
    interrupted: str = "Interrupted.",
) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        given = _parsed(prog, about, table, words)
        imports.load_modules(given.imports)
        for place in NAMED & vars(given).keys():
            named: str | None = vars(given)[place]
            if named is not None:
                vars(given)[place] = imports.without_module(named)
        _siblings.load(table[given.command].module).run(given)
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{interrupted}\n")
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError, gym.error.Error) as error:
        sys.stderr.write(f"{prog}: {' '.join(str(error).split())}\n")
        return 2
    return 0


def _parsed(prog: str, about: str, table: Mapping[str, Command], words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in words if not word.startswith("-")), None)
    imports.search_current_folder()
    for name, command in table.items():
        one = commands.add_parser(name, help=command.about, description=command.about)
        if name == asked:
            _siblings.load(command.module).add_arguments(one)
            one.add_argument(
                imports.OPTION, dest="imports", action="append", default=[], metavar="MODULE", help=imports.HELP
            )
    return parser.parse_args(words)
