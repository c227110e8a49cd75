"""Typer commands from typed functions: options in dataclasses, `--import`, errors of one line, exit statuses.

A command is a function `command` with `Annotated` parameters. Its docstring is the help, and ends with an example. A
parameter whose type is a dataclass stands for the annotated fields of that dataclass, so that several commands share
one declaration of their options.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import gymnasium as gym
import typer
from typer.models import OptionInfo, ParameterInfo

from mage_envs import progress
from mage_envs.cli.console import complain, hyphenate
from mage_envs.cli.game_options import FLAG, read_game_options
from mage_envs.cli.tables import Block, print_report
from mage_envs.files.atomic import output_path
from mage_envs.loading import imports
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.extras import describe_missing
from mage_envs.processes.call_outcomes import TRACEBACK
from mage_envs.registry import find_env
from mage_envs.secrets import scrub
from mage_envs.text.visible import one_line

MODULE_PREFIXED = ("env", "env_id", "game")
"""Parameters whose value may name a module before a colon."""
GAME_OPTIONS = "game_options"
"""Parameter, or field of a dataclass, with the options of the game or of the environment."""
LAST_PORT = 65_535
ENDED_BY_A_PIPE = 141
"""Exit status of a program if the reader of its output is gone: 128 plus the number of SIGPIPE."""
IMPORTS = {
    "imports": Annotated[list[str], typer.Option(imports.OPTION, metavar="MODULE", help=imports.HELP)],
    "allowed_paths": Annotated[list[str], typer.Option(imports.PATH_OPTION, metavar="PATH", help=imports.PATH_HELP)],
}
"""Options of every command."""
GameOptions = Annotated[
    Mapping[str, Any] | None,
    typer.Option(
        FLAG, metavar="NAME=VALUE", help="Option of the game, such as reveal=always; JSON or text; may be repeated"
    ),
]
"""Type of the parameter `game_options: GameOptions = None`."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print the values as JSON, with all digits")]
"""Type of the parameter `as_json: JsonOption = False` of a command that prints a table."""


def choice_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return a parser for an option with these values, which are known when the program runs."""

    def choice(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text!r} must be one of {', '.join(names)}.{nearest_name(text, names)}")
        return text

    return choice


def output_option(metavar: str, help_text: str) -> Any:
    """Return the option of a file or a folder to write, whose path is made absolute at once."""
    return typer.Option(metavar=metavar, parser=output_path, help=help_text)


def print_json(values: Any) -> None:
    """Write the values of a command with `--json` to stdout."""
    sys.stdout.write(json.dumps(values, indent=2) + "\n")


def print_result(values: Any, blocks: Iterable[Block], as_json: bool) -> None:
    """Write the result of a command to stdout, as JSON values with `--json`, else as a report."""
    if as_json:
        print_json(values)
    else:
        print_report(blocks)


def build_command(name: str, module: ModuleType, markup: Any) -> Any:
    """Return typer's command for a module with a function `command`, or with an application `app`."""
    if hasattr(module, "app"):
        module.app.rich_markup_mode = markup
        return typer.main.get_command(module.app)
    app = typer.Typer(add_completion=False, rich_markup_mode=markup, pretty_exceptions_enable=False)
    add_command(app, name, module.command)
    return typer.main.get_command(app)


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add a function to an application as a subcommand. The last paragraph of its docstring is the example."""
    text, _, example = (inspect.getdoc(function) or "").rpartition("\n\n")
    app.command(name, help=text, epilog=example, context_settings={"token_normalize_func": hyphenate})(
        wrap_command(function)
    )


def wrap_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for typer, with the options of dataclasses and `IMPORTS` as parameters of their own.

    It loads the user's modules, calls `function`, and turns errors into exit statuses.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += _fields_of(groups[name]) if name in groups else [parameter]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=[], annotation=annotation)
        for name, annotation in IMPORTS.items()
    ]
    # Required parameters first, as in every signature; all of them are passed by name.
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    parameters = [_with_defaults(parameter).replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    def run(**values: Any) -> None:
        names, paths = values.pop("imports"), values.pop("allowed_paths")
        with _errors_reported():
            # The user's modules come first, because they register the games that the other options name.
            imports.load_modules(names)
            imports.allow_paths(paths)
            for name in MODULE_PREFIXED:
                if values.get(name) is not None:
                    values[name] = imports.without_module(values[name])
            if GAME_OPTIONS in values:
                # None without any option, so that a command knows whether there are some.
                values[GAME_OPTIONS] = read_game_options(values[GAME_OPTIONS] or ()) or None
            _resolve_env(values)
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in _fields_of(kind)})
            with progress.show_lines():
                function(**values)
            # Flush here, so that a broken pipe is noticed inside this `with`.
            sys.stdout.flush()

    vars(run).update(
        __signature__=inspect.Signature(parameters),
        __annotations__={parameter.name: parameter.annotation for parameter in parameters},
    )
    return run


def _resolve_env(values: dict[str, Any]) -> None:
    """Replace the name of a game in place of an environment's id by the id, and add the options that it stands for."""
    for name in ("env", "env_id"):
        if values.get(name) is None:
            continue
        values[name], env_options = find_env(values[name])
        if env_options and GAME_OPTIONS in values:
            values[GAME_OPTIONS] = {**env_options, **(values[GAME_OPTIONS] or {})}


def read_port(text: str) -> int:
    """Return the port of a text. Raises ValueError if it is not a port."""
    # `int` would accept signs, blanks, underscores and other digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise ValueError(f"a port must be a number from 0 to {LAST_PORT}, got {text!r}")
    return int(text)


def _fields_of(kind: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a dataclass that are options or arguments, as parameters."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if any(isinstance(extra, ParameterInfo) for extra in get_args(hints[field.name])[1:]):
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            default = inspect.Parameter.empty if default is MISSING else default
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
            )


def _with_defaults(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter whose typer option follows the conventions of this project.

    A flag that is off has no negative form, a default that the help states is not repeated, and a parser that raises
    ValueError keeps its message.
    """
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *extras = get_args(parameter.annotation)
    if parameter.name == GAME_OPTIONS:
        # The program reads texts, and the command gets what they say.
        kind = list[str] | None
    infos = [copy(extra) for extra in extras if isinstance(extra, ParameterInfo)]
    for info in infos:
        info.show_default = info.show_default and "default" not in (info.help or "")
        flagless = isinstance(info, OptionInfo) and info.default is ... and not info.param_decls
        if kind is bool and parameter.default is False and flagless:
            info.param_decls = (f"--{hyphenate(parameter.name)}",)
        if info.parser is not None:
            info.parser = _reporting(info.parser)
    metadata = [extra for extra in extras if not isinstance(extra, ParameterInfo)]
    return parameter.replace(annotation=Annotated[kind, *metadata, *infos])


def _reporting(parser: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return the parser with a usage error in place of a ValueError, whose message typer would drop."""

    def parse(text: Any) -> Any:
        # Click converts defaults, too, which are not text.
        if not isinstance(text, str):
            return text
        try:
            return parser(text)
        except (ValueError, OSError) as error:
            raise typer.BadParameter(describe_error(error)) from error

    # The metavar of an option without one.
    parse.__name__ = getattr(parser, "__name__", "TEXT")
    return parse


_REPORTED = (
    *(ValueError, LookupError, OSError, ImportError, RuntimeError, ArithmeticError, MemoryError),
    *(gym.error.Error, imports.WrongKind),
)
"""Errors of a user's input or of the machine."""


class _errors_reported:
    """Context that turns an error into one line on stderr and typer's exit with the status of the program."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, BrokenPipeError):
            # The reader has enough, as in `mage list | head`. The interpreter flushes stdout again at its end, which
            # must not fail there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ENDED_BY_A_PIPE)
        # A usage error is also a RuntimeError or ValueError in some versions of click; the program prints it.
        if isinstance(error, typer.TyperException | typer.Exit | typer.Abort):
            return
        if isinstance(error, _REPORTED):
            report_error(error)
            raise typer.Exit(2)


def report_error(error: Exception) -> None:
    """Write an error to stderr in one line, without secrets."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK)]
    complain(f"mage: {one_line(scrub(' '.join([describe_error(error), *notes])))}")


def describe_error(error: Exception) -> str:
    """Return the message of an error. An error of the operating system gets its path and a remedy."""
    if isinstance(error, gym.error.UnregisteredEnv):
        return f"{error} mage list prints all ids."
    if isinstance(error, ImportError):
        return describe_missing(error)
    if isinstance(error, MemoryError):
        return f"the memory is full ({str(error) or 'MemoryError'}). Use a smaller game, batch or table."
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    reason = error.strerror or f"error {error.errno} of the system"
    if error.filename is None:
        return f"{reason} ({type(error).__name__})."
    remedies: Mapping[int, str] = {
        errno.ENOENT: "check the path",
        errno.ENOSPC: "free some space",
        errno.EISDIR: "name a file in it",
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name a place that you may use"),
        **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "name another path"),
    }
    return f"{error.filename}: {reason}; {remedies.get(error.errno, 'check what is there')}."
