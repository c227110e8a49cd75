"""`mage-envs`: play a game in a terminal, list games with their opponents, and say what is installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from mage_envs.terminal.commands import Command, run_command

COMMANDS: Mapping[str, Command] = {
    "play": Command("mage_envs.terminal.play", "play a game in the terminal"),
    "list": Command("mage_envs.terminal.listing", "list the games, their ids and the opponents that fit"),
    "webshop": Command(
        "mage_envs.terminal.webshop",
        "WebShop: convert the original's data files, check them, serve its site to a browser",
    ),
    "doctor": Command("mage_envs.terminal.doctor", "say which engines, data and caches the games find here"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    return run_command("mage-envs", "Text games against registered opponents.", COMMANDS, arguments)


if __name__ == "__main__":
    import mage_commands

    sys.exit(mage_commands.envs())
