"""`mage-envs`: play a game in a terminal, list games and opponents, and check the installation."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Before the imports below, so that Ctrl-C ends the command in one line from here on. The command imports this file
    # again, as a module.
    import mage_commands

    sys.exit(mage_commands.envs())

from collections.abc import Mapping, Sequence

from mage_envs.cli.commands import Command, run_command

COMMANDS: Mapping[str, Command] = {
    "play": Command("mage_envs.cli.play", "Play a game in the terminal"),
    "list": Command("mage_envs.cli.listing", "List games with their ids and their opponents"),
    "webshop": Command(
        "mage_envs.cli.webshop",
        "Convert and check WebShop's original data files, or serve its site to a browser",
    ),
    "doctor": Command("mage_envs.cli.doctor", "Report the engines, data and caches that the games find"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand. Returns 0, 2 after an error (one line on stderr), or 130 after Ctrl-C."""
    return run_command("mage-envs", "Text games against registered opponents.", COMMANDS, arguments)
