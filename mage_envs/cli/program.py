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

from mage_envs.cli.console import complain, hyphenate
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


FOLDER = "mage_envs.benchmarks.commands"
COMMANDS = {
    "play": Subcommand(f"{FOLDER}.play", "Play", "play a game or a meta-episode in the terminal or in a browser"),
    "list": Subcommand(f"{FOLDER}.listing", "Play", "list games, opponents, memories, panels, suites and agents"),
    "doctor": Subcommand(
        f"{FOLDER}.doctor",
        "Play",
        "report what the games find on this machine, or the facts of a model or a folder",
    ),
    "check": Subcommand(
        f"{FOLDER}.check",
        "Play",
        "check your environment, game or opponent: garbage, copies, processes, hangs, NaN, memory",
    ),
    "serve": Subcommand(
        f"{FOLDER}.serve", "Play", "serve environments to clients of other frameworks (OpenEnv), or WebShop's site"
    ),
    "demo": Subcommand(
        "mage_envs.benchmarks.demo.run",
        "Train",
        "train a tiny model to adapt on this machine, and compare it with exact references",
    ),
    "train": Subcommand(f"{FOLDER}.train", "Train", "train a language model on meta-episodes, or a sweep of trainings"),
    "paper": Subcommand(
        f"{FOLDER}.paper", "Train", "run the trainings and evaluations of one of the paper's tables or ablations"
    ),
    "adapt": Subcommand(
        f"{FOLDER}.adapt",
        "Evaluate",
        "measure whether agents adapt to whom they play: the level of play, and what their own memory is worth to them",
    ),
    "eval": Subcommand(
        f"{FOLDER}.eval",
        "Evaluate",
        "evaluate models, policies or scripts on a panel or in a suite, with records",
    ),
    "tournament": Subcommand(
        f"{FOLDER}.tournament",
        "Evaluate",
        "play every policy against every policy: payoff matrix, exact values, ranking, heat map",
    ),
    "compare": Subcommand(
        f"{FOLDER}.compare", "Records", "compare runs or suites task by task, or write a leaderboard of them"
    ),
    "report": Subcommand(
        f"{FOLDER}.report_page", "Records", "write one HTML file of runs: scores, adaptation curves, every transcript"
    ),
    "verify": Subcommand(
        f"{FOLDER}.verify", "Records", "check the files of runs, execute them again, or challenge their agent"
    ),
    "export": Subcommand(
        f"{FOLDER}.export",
        "Records",
        "write a run's calls as CSV or Parquet, its transcripts as ATIF or Markdown, or all as a Hugging Face data set",
    ),
    "headroom": Subcommand(
        f"{FOLDER}.headroom",
        "Exact values",
        "print the exact value of memory and exploration in a game, its ceilings, or transfer between tasks",
    ),
    "regret": Subcommand(
        f"{FOLDER}.regret",
        "Exact values",
        "play an agent and print the exact cost of its decisions, and its score without the luck of the cards",
    ),
    "exploit": Subcommand(
        f"{FOLDER}.exploit",
        "Exact values",
        "query a saved model at every information set of a small game and print its exploitability",
    ),
}
"""Subcommands by name, in the order of the help."""
FIRST: tuple[tuple[str, str, str], ...] = (
    ("play", "be the learner yourself", "mage play KuhnPoker"),
    ("adapt", "measure whether an agent adapts", "mage adapt policy:myopic --suite adapt-mini"),
    ("eval", "evaluate agents, with records", "mage eval policy:kuhn/nash --panel kuhn-paper-16 --out runs/a"),
    ("report", "look at what they did", "mage report runs/a"),
    ("train", "train a model to adapt", "mage train --preset mage-kuhn --model words --output_dir runs/b"),
    ("demo", "see a tiny model learn to adapt", "mage demo"),
)
"""What `mage` alone prints: verb, what it is for, and a command to type."""


def first_page() -> str:
    """Return what `mage` alone prints."""
    lines = [f"  {verb:<7} {about:<34} {example}\n" for verb, about, example in FIRST]
    return f"Does your language agent learn who it is playing against?\n\n{''.join(lines)}\nAll commands: mage --help\n"


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
        name, command, remaining_args = super().resolve_command(ctx, args)
        return name, None if name is None or command is None else load_command(name), remaining_args

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
        # Both spellings of a flag are valid: --game-option and --game_option.
        context_settings={"token_normalize_func": hyphenate},
    )
    app.callback(epilog="Example: mage play mage/KuhnPoker-v0")(_program)
    return typer.main.get_command(app)


def _print_versions(is_requested: bool) -> None:
    if is_requested:
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
        # A shell that completes a command line passes it in the environment, without arguments.
        if not words and "_MAGE_COMPLETE" not in os.environ:
            sys.stdout.write(first_page())
            return 0
        status = program().main(words, prog_name="mage", standalone_mode=False)
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
