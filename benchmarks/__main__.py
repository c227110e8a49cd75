"""`mage-bench`, the command line of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from mage_envs.terminal.commands import Command, run_command

COMMANDS: Mapping[str, Command] = {
    "eval": Command(
        "benchmarks.evaluation.evaluate",
        "evaluate a saved model, a policy or a scripted agent on a table of opponents",
    ),
    "ceilings": Command(
        "benchmarks.exact.ceilings",
        "print the exact ceilings of a game: best responses, exploitability, Bayes-optimal adaptation",
    ),
    "exploit": Command(
        "benchmarks.exact.exploit",
        "query a saved model at every information set of a small game and print its exploitability",
    ),
    "tournament": Command(
        "benchmarks.tournaments.command",
        "play every policy against every policy: payoff matrix, exact values, ranking, heat map",
    ),
    "list": Command("benchmarks.evaluation.suites", "name the panels and the kinds of agents"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    about = "Evaluates agents, and keeps the numbers honest."
    return run_command("mage-bench", about, COMMANDS, arguments, "Interrupted; nothing was written.")


if __name__ == "__main__":
    sys.exit(main())
