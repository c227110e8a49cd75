"""`mage-envs list`: the games, their ids and the opponents that fit; pools and memories."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import mage_envs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-envs list`."""
    parser.add_argument("game", nargs="?", metavar="GAME", help="as in KuhnPoker; all games by default")


def run(arguments: argparse.Namespace) -> None:
    """Prints ids and opponents of one game, or of all."""
    for name in mage_envs.list_games() if arguments.game is None else (arguments.game,):
        players = mage_envs.load_game(name).facts.players
        print(f"{name}\n  ids        mage/{name}-v0  mage/{name}-Meta-v0")
        if players > 1:
            _show_wrapped("opponents", (*mage_envs.list_opponents(name), *mage_envs.list_forms(name)))
    if arguments.game is None:
        _show_wrapped("pools", [f"pool:{name}" for name in mage_envs.list_pools()])
        _show_wrapped("memories", mage_envs.list_memories())


def _show_wrapped(title: str, names: Sequence[str]) -> None:
    line, label = "", title
    for name in names:
        if line and len(line) + len(name) > 100:
            print(f"  {label:<10}{line}")
            line, label = "", ""
        line += f" {name} "
    print(f"  {label:<10}{line}".rstrip())
