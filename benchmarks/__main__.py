"""`mage-bench`, the command line of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from mage_commands import OneLineParser

ABOUT = "Evaluates agents, and keeps the numbers honest."
COMMANDS: Mapping[str, tuple[str, str]] = {
    "eval": (
        "benchmarks.evaluation.command",
        "evaluate a saved model, a policy or a scripted agent on a panel, and keep what was played",
    ),
    "suite": (
        "benchmarks.evaluation.suite_command",
        "evaluate several agents and memories at all settings of a suite, beside what the paper reported",
    ),
    "replay": (
        "benchmarks.records.replay",
        "execute a run again from its recorded replies, and compare every prompt, reward and outcome",
    ),
    "validate": ("benchmarks.records.validate", "check the files of runs: schema, digests, root, fingerprint, scores"),
    "ablate": (
        "benchmarks.sweeps.ablation",
        "train and evaluate what the paper's section 4.4 takes away from MAGE, over seeds, in one table",
    ),
    "compare": (
        "benchmarks.evaluation.comparison",
        "compare runs of the same tasks: paired differences, intervals, p-values, what the panel could show",
    ),
    "export": ("benchmarks.records.export", "write the calls of a run as CSV or Parquet, or its transcripts as ATIF"),
    "report": ("benchmarks.report.command", "make one HTML file of runs: scores, adaptation curves, every transcript"),
    "quote": ("benchmarks.report.quote", "print a transcript of a run as Markdown"),
    "leaderboard": ("benchmarks.records.leaderboard", "compare validated runs of one setting in a table"),
    "fill": (
        "benchmarks.evaluation.fill",
        "play a panel to fill a memory's bank, which scope=run reads",
    ),
    "ceilings": (
        "benchmarks.exact.ceilings",
        "print the exact ceilings of a game: best responses, exploitability, Bayes-optimal adaptation",
    ),
    "headroom": (
        "benchmarks.exact.headroom",
        "print what memory of earlier episodes, and exploration across them, is worth in a game, exactly",
    ),
    "regret": (
        "benchmarks.exact.regret_command",
        "play an agent and print what its decisions cost, exactly, and its score without the luck of the cards",
    ),
    "exploit": (
        "benchmarks.exact.exploit",
        "query a saved model at every information set of a small game and print its exploitability",
    ),
    "tournament": (
        "benchmarks.tournaments.command",
        "play every policy against every policy: payoff matrix, exact values, ranking, heat map",
    ),
    "chaos": (
        "benchmarks.chaos.command",
        "try to break an environment, a game, an opponent of yours: garbage, copies, processes, hangs, NaN, memory",
    ),
    "list": ("benchmarks.evaluation.suites.listing", "name the panels, the suites and the kinds of agents"),
}
"""Name to module and description. Nothing of the suite is loaded before one is chosen."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not COMMANDS.keys() & set(words):
        _tell(words)
    from mage_envs.terminal.commands import Command, run_command

    table = {name: Command(*entry) for name, entry in COMMANDS.items()}
    return run_command("mage-bench", ABOUT, table, words, "Interrupted; nothing was written.")


def _tell(words: Sequence[str]) -> None:
    """Ends with the help or with what is wrong, where no subcommand is named."""
    parser = OneLineParser(prog="mage-bench", description=ABOUT)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, about) in COMMANDS.items():
        commands.add_parser(name, help=about)
    parser.parse_args(words)


if __name__ == "__main__":
    import mage_commands

    sys.exit(mage_commands.bench())
