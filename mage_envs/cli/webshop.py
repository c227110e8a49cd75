"""`mage-envs webshop`: tools for WebShop's data files, and its site."""

from __future__ import annotations

import argparse

import mage_envs
from mage_envs.games.webshop import command
from mage_envs.games.webshop.site import command as site


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `mage-envs webshop`."""
    about = "Serve the site to the browsers of this machine"
    commands = command.add_commands(parser)
    site.add_options(commands.add_parser("serve", help=about, description=about), ("rule", "oracle"))


def run(arguments: argparse.Namespace) -> None:
    """Run one of the subcommands."""
    if arguments.webshop_command == "serve":
        # The opponents are passed as a function, because games are a layer below opponents and cannot import them.
        site.serve(arguments, lambda name, game: mage_envs.make_opponent(f"webshop/{name}", game))
    else:
        command.run(arguments)
