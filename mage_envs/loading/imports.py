"""Resolution of names to modules, classes and paths, with one rule for a user's names and one for names in files.

A user may type any module: `--import my_games`, `my_games:` before an environment's id, `my_games:Class` as an
opponent. A file (a record, mage.json, a suite file) may come from a stranger. Inside `names_from(file)`, only
registered names resolve, and classes of modules that the user has imported.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, ModuleType
from typing import Any

OPTION = "--import"
FOLDERS = ("opponents", "wrappers", "trainer", "benchmarks")
"""Packages of ours that a clone has under names of their own, too (`mage_envs.loading.folders`)."""
HELP = "Module that registers your games and opponents, installed or in the current folder (may be repeated)"
PATH_OPTION = "--allow-path"
PATH_HELP = "File or folder outside the record that the record may read, such as WebShop's data (may be repeated)"

_IMPORTED: list[str] = []
_ALLOWED_PATHS: list[Path] = []
_FILE: ContextVar[str | None] = ContextVar("file", default=None)
"""File whose names are being resolved, or None if names come from the user."""
_LOCKED_PATHS: ContextVar[bool] = ContextVar("locked_paths", default=False)


class NoSuchModule(ImportError):
    """Error for a module that is not found."""


class NoSuchName(ImportError):
    """Error for a name that its module does not define."""


class WrongKind(TypeError):
    """Error for a name of the user's that refers to another kind of object than expected."""


class UntrustedName(ImportError):
    """Error for a module or a path in a file that the user did not allow."""


@contextmanager
def names_from(file: str | Path, *, paths: bool = False) -> Iterator[None]:
    """Resolve registered names only, because they come from `file`.

    Args:
        file: Shown in error messages.
        paths: True if the file may also name files and folders of this machine. A suite file may, a record may not.
    """
    tokens = _FILE.set(str(file)), _LOCKED_PATHS.set(not paths)
    try:
        yield
    finally:
        _FILE.reset(tokens[0])
        _LOCKED_PATHS.reset(tokens[1])


@contextmanager
def _current_folder(module: str) -> Iterator[None]:
    """Search the current folder while a module that the user named is imported, if no other folder has its package.

    At any other time the current folder may be a stranger's. A `brotli.py` there would be imported by any library
    that tries to import an optional package, and entry points there would be loaded as plug-ins.
    """
    package, folder = module.partition(".")[0], os.getcwd()
    if package in FOLDERS and package not in sys.modules:
        # In a clone, the folders of ours must not hide the user's modules.
        sys.path.insert(0, folder)
    elif package in sys.modules or find_spec(package) is not None:
        yield
        return
    else:
        sys.path.append(folder)
    try:
        yield
    finally:
        # The imported module may have changed sys.path.
        with suppress(ValueError):
            sys.path.remove(folder)


def load_registered(module: str) -> ModuleType:
    """Import the module of a registered entry point. One that the user's modules registered may be beside them."""
    with _current_folder(module) if _IMPORTED else nullcontext():
        return import_module(module)


def naming_file() -> str | None:
    """Return the file whose names are being resolved, or None if the names come from the user."""
    return _FILE.get()


def load_modules(names: Iterable[str], named_by: str = OPTION, *, registers: bool = True) -> None:
    """Import modules, so that they register their games and opponents.

    Args:
        names: Dotted module names.
        named_by: Source of the names, the first words of an error message.
        registers: False for the module of an agent, which no reader of the run needs: `user_modules` leaves it out.

    Raises:
        ImportError: If a module cannot be imported. The message is one line.
        UntrustedName: If the names come from a file and the user did not import the module.
    """
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise ImportError(f"{named_by}: {name!r} is not a module name.")
        if (file := _FILE.get()) is not None:
            # The module is not even looked up: finding a submodule would import its parent package.
            if not _is_from_user(name):
                raise UntrustedName(f"{file} needs the module {name!r}. Check it, then add {OPTION} {name}.")
            continue
        try:
            with _current_folder(name):
                import_module(name)
        except ModuleNotFoundError as error:
            _check_found(name, named_by)
            # The missing module may be this one (or its parent package), or one that it imports.
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise ImportError(f"{named_by}: {name!r} imports {error.name!r}, which is not installed.") from error
            raise NoSuchModule(
                f"{named_by}: no module {error.name!r} was found. Searched: {describe_search_path()}."
            ) from error
        except ImportError:
            raise
        except Exception as error:
            # The message of a SyntaxError has its line. Of any other error, the last line of the module is the place.
            frames = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename]
            place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames[1:] else ""
            raise ImportError(
                f"{named_by}: {name!r} cannot be imported: {type(error).__name__}: {error}{place}."
            ) from error
        _check_found(name, named_by)
        if registers and name not in _IMPORTED:
            _IMPORTED.append(name)


def _check_found(name: str, named_by: str) -> None:
    """Raise ImportError if a module that is searched first hides the user's file, or if `name` is a package of ours."""
    package = name.partition(".")[0]
    module = sys.modules.get(name) or sys.modules.get(package)
    file = getattr(module, "__file__", None)
    if file is None:
        return
    # The current folder is searched last, and only while a module is imported that no other folder has. A file in it
    # can have the name of an installed package.
    user_files = _files_of(name)
    if user_files and all(Path(file).resolve() != path.resolve() for path in user_files):
        raise ImportError(
            f"{named_by}: {file} hides your {user_files[0]}, because both are called {package!r}. Rename yours."
        )
    if name in FOLDERS and module is not None and module.__name__ == f"mage_envs.{name}":
        raise ImportError(f"{named_by}: {name!r} is a package of mage-envs itself. Pass a module of your own.")


def _files_of(name: str) -> list[Path]:
    """Return the files in the current folder that can define a module."""
    path = Path.cwd().joinpath(*name.split("."))
    return [file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()]


def _is_from_user(name: str) -> bool:
    """Return True if the user named the module, or if their own code, outside the installation, has imported it."""
    if name in _IMPORTED:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not file.startswith(_installation_folders())


def user_modules() -> tuple[str, ...]:
    """Return the modules that the user named. Records store them, and worker processes import them too."""
    return tuple(_IMPORTED)


def without_module(name: str) -> str:
    """Return the environment's id or the game's name in `module:name` after importing the module."""
    module, colon, bare_name = name.partition(":")
    if not colon:
        return name
    load_modules([module], name)
    return bare_name


def load_entry(entry_point: str) -> Any:
    """Return the object that a registered `"module:name"` refers to. Registered strings are trusted."""
    module, _, name = entry_point.partition(":")
    return _attribute(load_registered(module), name, entry_point)


def load_class(spec: str, noun: str, methods: Iterable[str]) -> type[Any]:
    """Import the class that `module:Class` refers to.

    Args:
        spec: Module and class name.
        noun: Kind of class for error messages, such as `an opponent`.
        methods: Methods that the class must define. A function or another callable is refused, because calling it
            could do anything.

    Raises:
        ImportError: If the module or the class does not exist.
        WrongKind: If the name is not a class with these methods.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    module, _, name = spec.partition(":")
    load_modules([module], spec)
    attribute = _attribute(sys.modules[module], name, spec)
    missing = [method for method in methods if not hasattr(attribute, method)]
    if not isinstance(attribute, type) or missing:
        got = f"it lacks {' and '.join(missing)}" if isinstance(attribute, type) else f"got {type(attribute).__name__}"
        raise WrongKind(f"{spec!r} must be {noun}, a class with {', '.join(methods)}; {got}.")
    return attribute


def load_function(spec: str) -> FunctionType:
    """Import the function that `module:function` refers to.

    Raises:
        ImportError: If the module or the function does not exist.
        WrongKind: If the name is not a function that this module defines. A function of the standard library, such as
            `os:system`, is therefore refused.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    module, _, name = spec.partition(":")
    load_modules([module], spec)
    attribute = _attribute(sys.modules[module], name, spec)
    if not isinstance(attribute, FunctionType) or attribute.__module__ != module:
        raise WrongKind(f"{spec!r} must be a function that {module} defines; got {type(attribute).__name__}.")
    return attribute


def load_callable(spec: str) -> Callable[..., Any]:
    """Import the function or class that `module:name` refers to, and that the module defines.

    Raises:
        ImportError: If the module or the name does not exist.
        WrongKind: If the name is neither a function nor a class, or if another module defines it, as in `os:system`.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    module, _, name = spec.partition(":")
    load_modules([module], spec, registers=False)
    attribute = _attribute(sys.modules[module], name, spec)
    if not isinstance(attribute, FunctionType | type) or attribute.__module__ != module:
        raise WrongKind(
            f"{spec!r} must be a function or a class that {module} defines; got {type(attribute).__name__}."
        )
    return attribute


def import_path(builder: Callable[..., Any] | str) -> str:
    """Return `module:name` of a function or class, which stays the same if its module is loaded again.

    An entry point is its own path, and a partial's path contains its arguments.
    """
    if isinstance(builder, str):
        return builder
    if isinstance(builder, partial):
        return f"{import_path(builder.func)}{builder.args}{builder.keywords}"
    return f"{builder.__module__}:{builder.__qualname__}"


def _attribute(module: ModuleType, name: str, spec: str) -> Any:
    try:
        return vars(module)[name]
    except KeyError:
        raise NoSuchName(f"{spec}: the module has no {name!r}.") from None


def allow_paths(paths: Iterable[str | Path]) -> None:
    """Let records read these files and folders."""
    _ALLOWED_PATHS.extend(Path(path).expanduser().resolve() for path in paths)


def readable_paths() -> tuple[Path, ...]:
    """Return the files and folders that records may read. Worker processes allow them too."""
    return tuple(_ALLOWED_PATHS)


def check_path(path: str | os.PathLike[str], option: str) -> None:
    """Raise `UntrustedName` if a record names a path that the user did not allow.

    Args:
        path: File or folder that is about to be read.
        option: Option that names it, for the message.
    """
    # Symbolic links are resolved first: a link inside an allowed folder may point anywhere.
    resolved = Path(path).expanduser().resolve()
    if not _LOCKED_PATHS.get():
        # The user named this path, so a report about the same run may read it later in this process.
        if resolved not in _ALLOWED_PATHS:
            _ALLOWED_PATHS.append(resolved)
        return
    if not any(resolved.is_relative_to(allowed) for allowed in _ALLOWED_PATHS):
        raise UntrustedName(
            f"{_FILE.get()} reads {str(resolved)!r} ({option}). Check it, then add {PATH_OPTION} {str(resolved)!r}."
        )


def describe_search_path() -> str:
    """Return the places where a user's modules are searched: outside the installation, and the current folder."""
    folders = [
        path or os.getcwd()
        for path in sys.path
        if not path.startswith(_installation_folders()) and not path.endswith(".zip")
    ]
    folders.append(os.getcwd())
    return ", ".join(["the installed packages", *dict.fromkeys(folders)])


def _installation_folders() -> tuple[str, ...]:
    """Return the folders of installed packages, the system's and the user's included."""
    paths = [sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(dict.fromkeys([*paths, *site.getsitepackages(), site.getusersitepackages()]))
