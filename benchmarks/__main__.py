"""`mage-bench`, the command line of the benchmarks. A subcommand is a module with HELP, add_arguments and run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import gymnasium as gym

COMMANDS: Mapping[str, str] = {
    "eval": "benchmarks.evaluation.evaluate",
    "ceilings": "benchmarks.exact.ceilings",
    "exploit": "benchmarks.exact.exploit",
    "tournament": "benchmarks.tournaments.command",
    "list": "benchmarks.evaluation.suites",
}
"""Subcommand to its module."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="mage-bench", description="Evaluates agents, and keeps the numbers honest.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        about = import_module(module).HELP
        import_module(module).add_arguments(commands.add_parser(name, help=about, description=about))
    given = parser.parse_args(arguments)
    try:
        import_module(COMMANDS[given.command]).run(given)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; nothing was written.\n")
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError, gym.error.Error) as error:
        sys.stderr.write(f"mage-bench: {' '.join(str(error).split())}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
