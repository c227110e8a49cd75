"""`mage-envs webshop`: the tools of WebShop's data files, and its site."""

from __future__ import annotations

import argparse

import mage_envs
from mage_envs.games.webshop import command
from mage_envs.games.webshop.site import command as site


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `mage-envs webshop`."""
    about = "serve the site to this machine's browsers"
    commands = command.add_commands(parser)
    site.add_options(commands.add_parser("serve", help=about, description=about), ("rule", "oracle"))


def run(arguments: argparse.Namespace) -> None:
    """Carries out one of them."""
    if arguments.webshop_command == "serve":
        site.serve(arguments, lambda name, game: mage_envs.make_opponent(f"webshop/{name}", game))
    else:
        command.run(arguments)
