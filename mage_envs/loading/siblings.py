"""Imports from the other top-level packages of this distribution, unless another module hides them.

A user's folder may contain a `trainer.py`, a `wrappers/` or an `opponents.py`. Importing `mage_envs` works there. Only
the functions that need the hidden package raise an error. It names the file that hides the package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("opponents", "wrappers", "trainer", "benchmarks")
"""Packages from the lowest layer up. Each may import those before it."""


def load(module: str) -> ModuleType:
    """Import a module of any package. Raises ImportError if another file hides a sibling package that it needs."""
    package = module.partition(".")[0]
    if package in NAMES:
        check(package)
    return import_module(module)


def check(package: str, root: Path = ROOT) -> None:
    """Raise ImportError if another file hides `package` or a package that it imports."""
    # The packages below are checked too: one of them could be hidden while `package` itself is not.
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
