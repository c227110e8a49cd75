"""Plug-ins: modules of other packages, announced by entry points, whose import registers opponents or memories.

    [project.entry-points."mage_envs.opponents"]
    my-package = "my_package.opponents"

A plug-in is imported when a name is not found, or when all names are listed. The name of a game is known before its
module is imported, see `mage_envs.registry.load_plugins`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

_begun: set[EntryPoint] = set()


@cache
def find_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group. The first call searches for them."""
    return tuple(entry_points(group=group))


def load_announced(kind: str) -> None:
    """Import every module of the group `mage_envs.<kind>` once; `kind` is `games`, `opponents` or `memories`.

    If an import fails, a warning names its package.
    """
    for entry in find_entry_points(f"mage_envs.{kind}"):
        if entry in _begun:
            continue
        # Before the import, because a plug-in may look up names itself and must not be loaded twice.
        _begun.add(entry)
        try:
            entry.load()
        except Exception as error:
            # A module of another package may raise anything, and must not stop this process.
            warn_of(entry, kind.capitalize(), error)


def warn_of(entry: EntryPoint, noun: str, error: Exception) -> None:
    """Warn that `noun` of another package could not be loaded."""
    package = entry.dist.name if entry.dist is not None else entry.module
    warnings.warn(
        f"{noun} of package {package!r} ({entry.value}) could not be loaded: "
        f"{type(error).__name__}: {error}. Update or uninstall it.",
        stacklevel=4,
    )
