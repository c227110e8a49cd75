"""A command line with subcommands, from a table of modules. Only the module of the called subcommand is imported.

Such a module has `add_arguments(parser)` and `run(arguments)`. Every subcommand accepts `--import`, and `module:`
before the environment's id or the game's name.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import gymnasium as gym

from mage_commands import OneLineParser
from mage_envs.cli import progress
from mage_envs.loading import imports, siblings
from mage_envs.processes.call_outcomes import TRACEBACK
from mage_envs.secrets import scrubbed
from mage_envs.text.visible import one_line

NAMED = {"env", "env_id", "game"}
"""Arguments that may name a module before a colon."""
ENDED_BY_A_PIPE = 141
"""Exit status of a program if the reader of its output is gone: 128 plus the number of SIGPIPE."""


class Command(NamedTuple):
    """One subcommand."""

    module: str
    about: str


def run_command(
    prog: str,
    about: str,
    table: Mapping[str, Command],
    arguments: Sequence[str] | None,
    interrupted: str = "Interrupted.",
) -> int:
    """Run a subcommand.

    Args:
        prog: Name of the program, for its help and its errors.
        about: Description of the program.
        table: Subcommands by name.
        arguments: Command line without the program's name (default: that of this process).
        interrupted: Line on stderr after Ctrl-C.

    Returns:
        Exit status: 0, 2 after an error (one line on stderr), 130 after Ctrl-C, 141 if the output's reader is gone.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        given = _parsed(prog, about, table, words)
        # The user's modules come first, because they register the games that the other arguments name.
        imports.load_modules(given.imports)
        imports.allow_paths(given.allowed_paths)
        for place in NAMED & vars(given).keys():
            named: str | None = vars(given)[place]
            if named is not None:
                vars(given)[place] = imports.without_module(named)
        with progress.shown():
            siblings.load(table[given.command].module).run(given)
        # Flush here, so that a broken pipe is noticed inside this `try`.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has enough, as in `mage-envs list | head`. The interpreter flushes stdout again at its end, which
        # must not fail there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ENDED_BY_A_PIPE
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{interrupted}\n")
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError, gym.error.Error) as error:
        notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK)]
        sys.stderr.write(f"{prog}: {one_line(scrubbed(' '.join([describe_error(error), *notes])))}\n")
        return 2
    return 0


def describe_error(error: Exception) -> str:
    """Return the message of an error. An error of the operating system gets its path and a remedy."""
    if isinstance(error, gym.error.UnregisteredEnv):
        return f"{error} mage-envs list prints all ids."
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    reason = error.strerror or f"error {error.errno} of the system"
    if error.filename is None:
        return f"{reason} ({type(error).__name__})."
    remedies = {errno.ENOENT: "check the path", errno.ENOSPC: "free some space", errno.EISDIR: "name a file in it"}
    remedies |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name a place that you may use")
    remedies |= dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "name another path")
    return f"{error.filename}: {reason}; {remedies.get(error.errno, 'check what is there')}."


def _parsed(prog: str, about: str, table: Mapping[str, Command], words: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(prog=prog, description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Only the called subcommand gets its options, because reading them means importing its module.
    asked = next((word for word in words if not word.startswith("-")), None)
    imports.search_current_folder()
    for name, command in table.items():
        one = commands.add_parser(name, help=command.about, description=command.about)
        if name == asked:
            siblings.load(command.module).add_arguments(one)
            one.add_argument(
                imports.OPTION, dest="imports", action="append", default=[], metavar="MODULE", help=imports.HELP
            )
            one.add_argument(
                imports.PATH_OPTION,
                dest="allowed_paths",
                action="append",
                default=[],
                metavar="PATH",
                help=imports.PATH_HELP,
            )
    return parser.parse_args(words)
