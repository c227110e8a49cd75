"""Refuses to start when another package hides one of the five, which lie side by side as top-level names."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

NAMES = ("opponents", "wrappers", "trainer", "benchmarks")


def check(root: Path, path: list[str] | None = None) -> None:
    """Raises ImportError naming the file that would be imported in place of `root`'s packages."""
    for name in NAMES:
        expected = root / name / "__init__.py"
        if not expected.exists():
            continue
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name, path)
        origin = spec.origin if spec is not None else None
        if origin is not None and Path(origin).resolve() != expected.resolve():
            raise ImportError(
                f"{origin} hides the package {name!r} of mage-envs ({expected.parent}). "
                f"Rename that file, uninstall that distribution, or start Python from another folder."
            )
