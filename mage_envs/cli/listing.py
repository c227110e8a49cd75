"""`mage-envs list`: the games with their ids and opponents, the pools and the memories."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import mage_envs
from mage_envs.cli.keyboard import screen_width

WIDE = 60
"""Width in columns from which names are printed beside their title."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-envs list`."""
    parser.add_argument("game", nargs="?", metavar="GAME", help="Name of a game, as in KuhnPoker (default: all games)")


def run(arguments: argparse.Namespace) -> None:
    """Print the ids and opponents of one game or of all games."""
    for name in mage_envs.list_games() if arguments.game is None else (arguments.game,):
        players = mage_envs.load_game(name).spec.players
        print(name)
        _show_wrapped("ids", (f"mage/{name}-v0", f"mage/{name}-Meta-v0"))
        if players > 1:
            _show_wrapped("opponents", (*mage_envs.list_opponents(name), *mage_envs.list_forms(name)))
    if arguments.game is None:
        _show_wrapped("pools", [f"pool:{name}" for name in mage_envs.list_pools()])
        _show_wrapped("memories", mage_envs.list_memories())


def _show_wrapped(title: str, names: Sequence[str]) -> None:
    """Print the names with two blanks between them, beside the title, or below it on a narrow screen."""
    width = screen_width()
    indent = " " * (13 if width >= WIDE else 4)
    lines: list[str] = []
    for name in names:
        if lines and len(indent) + len(lines[-1]) + 2 + len(name) <= width:
            lines[-1] += f"  {name}"
        else:
            lines.append(name)
    if width < WIDE:
        print(f"  {title}")
    for number, line in enumerate(lines):
        print((f"  {title:<11}" if number == 0 and width >= WIDE else indent) + line)
