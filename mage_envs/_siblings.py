"""Loads from the packages that lie beside this one as top-level names, unless another module hides them.

A folder of the user's may well hold a `trainer.py`, a `wrappers/` or an `opponents.py`. Importing `mage_envs` there
works; only what needs the hidden package refuses, in one line that names the file in its place.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("opponents", "wrappers", "trainer", "benchmarks")
"""Lowest layer first: each may import those before it."""


def load(module: str) -> ModuleType:
    """Imports a module, perhaps one of the siblings'. Raises ImportError where another file hides one that it needs."""
    package = module.partition(".")[0]
    if package in NAMES:
        check(package)
    return import_module(module)


def check(package: str, root: Path = ROOT) -> None:
    """Raises ImportError naming the file that would be imported in place of `package`, or of one that it imports."""
    for name in NAMES[: NAMES.index(package) + 1]:
        expected = root / name / "__init__.py"
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
        origin = spec.origin if spec is not None else None
        if origin is not None and expected.exists() and Path(origin).resolve() != expected.resolve():
            raise ImportError(
                f"{origin} hides the package {name!r} of mage-envs ({expected.parent}). "
                f"Rename that file, uninstall that distribution, or start Python from another folder."
            )
