"""`mage-bench`, the command line of the benchmarks."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Before the imports below, so that Ctrl-C ends the command in one line from here on. The command imports this file
    # again, as a module.
    import mage_commands

    sys.exit(mage_commands.bench())

from collections.abc import Mapping, Sequence

from mage_commands import OneLineParser

ABOUT = "Evaluate agents, score them against exact references, and store reproducible records."
COMMANDS: Mapping[str, tuple[str, str]] = {
    "eval": (
        "benchmarks.evaluation.run.eval_command",
        "evaluate a saved model, a policy or a scripted agent on a panel, and store its records",
    ),
    "suite": (
        "benchmarks.evaluation.suites.suite_command",
        "evaluate several agents and memories at all settings of a suite, next to the paper's reported scores",
    ),
    "replay": (
        "benchmarks.records.replay",
        "execute a run again from its recorded replies, and compare every prompt, reward and outcome",
    ),
    "validate": ("benchmarks.records.validate", "check the files of runs: schema, digests, root, fingerprint, scores"),
    "ablate": (
        "benchmarks.sweeps.ablation",
        "train and evaluate the ablations of the paper's section 4.4 over seeds, in one table",
    ),
    "compare": (
        "benchmarks.evaluation.tables.comparison",
        "compare runs of the same tasks: paired differences, intervals, p-values, detectable differences",
    ),
    "export": ("benchmarks.records.export", "write the calls of a run as CSV or Parquet, or its transcripts as ATIF"),
    "report": (
        "benchmarks.report.report_command",
        "write one HTML file of runs: scores, adaptation curves, every transcript",
    ),
    "quote": ("benchmarks.report.quote", "print a transcript of a run as Markdown"),
    "leaderboard": ("benchmarks.records.leaderboard", "compare validated runs of one setting in a table"),
    "fill": (
        "benchmarks.evaluation.run.fill",
        "play a panel to fill the bank of a memory with scope=run",
    ),
    "ceilings": (
        "benchmarks.exact.ceilings",
        "print the exact ceilings of a game: best responses, exploitability, Bayes-optimal adaptation",
    ),
    "headroom": (
        "benchmarks.exact.headroom",
        "print the exact value of memory of earlier episodes, and of exploration across them, in a game",
    ),
    "regret": (
        "benchmarks.exact.regret_command",
        "play an agent and print the exact cost of its decisions, and its score without the luck of the cards",
    ),
    "exploit": (
        "benchmarks.exact.exploit",
        "query a saved model at every information set of a small game and print its exploitability",
    ),
    "tournament": (
        "benchmarks.tournaments.tournament_command",
        "play every policy against every policy: payoff matrix, exact values, ranking, heat map",
    ),
    "chaos": (
        "benchmarks.chaos.chaos_command",
        "stress-test your environment, game or opponent: garbage, copies, processes, hangs, NaN, memory",
    ),
    "list": ("benchmarks.evaluation.suites.listing", "list the panels, the suites and the kinds of agents"),
}
"""Subcommand to its module and description. The module is imported only if its subcommand is chosen."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand. Return 0, 2 after an error (one line on stderr), or 130 after Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Without a subcommand there is only help to print or a usage error to report. Neither needs the slow import of
    # mage_envs below.
    if not COMMANDS.keys() & set(words):
        _tell(words)
    from mage_envs.cli.commands import Command, run_command

    table = {name: Command(*entry) for name, entry in COMMANDS.items()}
    return run_command("mage-bench", ABOUT, table, words, "Interrupted; nothing was written.")


def _tell(words: Sequence[str]) -> None:
    """Exit with the help or a usage error, because no subcommand is named."""
    parser = OneLineParser(prog="mage-bench", description=ABOUT)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, about) in COMMANDS.items():
        commands.add_parser(name, help=about)
    parser.parse_args(words)
