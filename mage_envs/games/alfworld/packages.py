"""The installed engine, imported without its side effects on the process.

`import alfworld` creates a folder and sets ALFWORLD_DATA. The planner's translator sets `sys.argv` and prints. This
module undoes both.
"""

from __future__ import annotations

import builtins
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from mage_envs.games.alfworld.errors import engine_missing

lock = threading.RLock()
"""Lock for changes of process-wide state. The translator keeps its options in one module.

A fork waits for the lock: a child that starts in the middle of an import or a translation could do neither again.
"""
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
_VARIABLE = "ALFWORLD_DATA"


@cache
def versions() -> tuple[str, ...]:
    """Return `name version` of the installed engine. Raise ImportError that names the extra."""
    installed = []
    for package in ("textworld", "fast-downward-textworld"):
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError as error:
            raise engine_missing(package) from error
    return tuple(installed)


@cache
def library_path() -> Path:
    """Return the path of the planner's shared library. Raise ImportError that names the extra."""
    spec = find_spec("fast_downward")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "libdownward.so"
        if path.is_file():
            return path
    raise engine_missing("fast-downward-textworld")


def check_engine() -> None:
    """Raise ImportError that names the extra if a package of the engine is missing. Imports none of them."""
    for package in ("textworld", "fast_downward"):
        if find_spec(package) is None:
            raise engine_missing(package)
    library_path()


def import_engine(name: str) -> ModuleType:
    """Return a module of textworld, fast_downward or alfworld. Raise ImportError that names the extra."""
    with lock:
        try:
            # The fast path for later calls: the import has had its side effects already.
            if sys.modules.get(name) is not None:
                return import_module(name)
            with _own_arguments(), _own_data_folder():
                return import_module(name)
        except ImportError as error:
            raise engine_missing(name.partition(".")[0]) from error


@contextmanager
def _own_arguments() -> Iterator[None]:
    """Set `sys.argv` as the translator requires it, and restore it afterwards."""
    arguments = sys.argv
    sys.argv = ["translate.py", "domain", "task"]
    try:
        yield
    finally:
        sys.argv = arguments


@contextmanager
def _own_data_folder() -> Iterator[None]:
    """Set ALFWORLD_DATA to an existing folder for the import of alfworld, and restore it afterwards."""
    previous_value = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        if not previous_value or not os.path.isdir(previous_value):
            os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            if previous_value is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = previous_value


@contextmanager
def process_kept() -> Iterator[None]:
    """Run the stock engine's calls of the translator alone, and restore `sys.argv` and `sys.stdout` afterwards."""
    with lock:
        output = sys.stdout
        try:
            with _own_arguments():
                yield
        finally:
            sys.stdout = output


def translate(domain: str, problem: str) -> tuple[Any, str]:
    """Return (task, SAS text), as `fast_downward.pddl2sas` makes them without `optimize`.

    Raises all errors of the translator: its own ParseError, KeyError, AssertionError, SystemExit and more.
    """
    with lock:
        modules = {name: import_engine(f"fast_downward.translate.{name}") for name in _MODULES}
        # Set again for each call, because other code of the process may have changed the options.
        for option, value in _OPTIONS.items():
            setattr(modules["options"], option, value)
        with _silent():
            parse = modules["pddl_parser.lisp_parser"].parse_nested_list
            task = modules["pddl_parser.parsing_functions"].parse_task(
                parse(domain.split("\n")), parse(problem.split("\n"))
            )
            modules["normalize"].normalize(task)
            sas = StringIO()
            modules["translate"].pddl_to_sas(task).output(sas)
    return task, sas.getvalue()


_MODULES = ("options", "normalize", "translate", "pddl_parser.lisp_parser", "pddl_parser.parsing_functions")
_OPTIONS = {
    "filter_unimportant_vars": False,
    "filter_unreachable_facts": False,
    "use_partial_encoding": False,
    "skip_variable_reordering": True,
    "add_implied_preconditions": False,
    "invariant_generation_max_candidates": 0,
}
"""Options of `pddl2sas`, which keep it from pruning operators and facts."""


@contextmanager
def _silent() -> Iterator[None]:
    """Silence the translator's modules. `sys.stdout` is unchanged, because other threads use it."""

    def quiet(*words: object, file: Any = None, **options: Any) -> None:
        if file is not None:
            builtins.print(*words, file=file, **options)

    namespaces = [vars(module) for name, module in sys.modules.items() if name.startswith("fast_downward.translate")]
    for names in namespaces:
        # A module-level name shadows the built-in function in that module only.
        names["print"] = quiet
    try:
        yield
    finally:
        for names in namespaces:
            names.pop("print", None)
