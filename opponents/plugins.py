"""Opponents of other installed packages, announced by entry points of the group `mage_envs.opponents`.

    [project.entry-points."mage_envs.opponents"]
    my-package = "my_package.opponents"

Each is imported on the first lookup that misses or lists; importing it registers its opponents and pools.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "mage_envs.opponents"

_begun: set[EntryPoint] = set()


@cache
def announced() -> tuple[EntryPoint, ...]:
    """The entry points found when first asked."""
    return tuple(entry_points(group=GROUP))


def load_plugins() -> None:
    """Imports every announced entry point once; one that fails is a warning that names its package."""
    for entry in announced():
        if entry in _begun:
            continue
        _begun.add(entry)  # before the import: a plug-in may itself look opponents up
        try:
            entry.load()
        except Exception as error:  # somebody else's module may raise anything, and must not stop this one
            package = entry.dist.name if entry.dist is not None else entry.module
            warnings.warn(
                f"Opponents of package {package!r} ({entry.value}) could not be loaded: "
                f"{type(error).__name__}: {error}. Update or uninstall it.",
                stacklevel=3,
            )
