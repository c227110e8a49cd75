"""Modules of users: `--import my_games`, `my_games:` before an environment's id, `my_games:Class` for a part of it."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from importlib import import_module
from typing import Any

OPTION = "--import"
HELP = "a module of yours that registers games and opponents, from the current folder or installed; may be repeated"

_IMPORTED: list[str] = []


def search_current_folder() -> None:
    """Lets modules of the current folder be found, after all others: a console script does not search it."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


def load_modules(names: Iterable[str], named_by: str = OPTION) -> None:
    """Imports the modules, so that they register what they have; ImportError tells in one line what went wrong.

    `named_by` begins that line: where the names come from.
    """
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ImportError(f"{named_by}: {name!r} is no module's name.")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise ImportError(f"{named_by}: {name!r} imports {error.name!r}, which is not installed.") from error
            raise ImportError(f"{named_by}: there is no module {error.name!r}. Searched: {searched()}.") from error
        if name not in _IMPORTED:
            _IMPORTED.append(name)


def imported() -> tuple[str, ...]:
    """The modules that this process was told to load, for the records of a run: its workers load them too."""
    return tuple(_IMPORTED)


def without_module(name: str) -> str:
    """The environment's id or the game's name in `module:name`, the module being imported; other names as they are."""
    module, colon, rest = name.partition(":")
    if not colon:
        return name
    load_modules([module], name)
    return rest


def load_named(spec: str) -> Any:
    """What `module:name` names. Raises ImportError where there is no such module or name."""
    module, _, name = spec.partition(":")
    load_modules([module], spec)
    found = vars(sys.modules[module])
    if name not in found:
        raise ImportError(f"{spec}: the module has no {name!r}.")
    return found[name]


def searched() -> str:
    """Where modules are looked for, in words: the folders of `sys.path` that are no part of the installation."""
    installed = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = [path or os.getcwd() for path in sys.path if not path.startswith(installed) and not path.endswith(".zip")]
    return ", ".join(["the installed packages", *dict.fromkeys(own)])
