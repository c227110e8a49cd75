"""What other installed packages announce by entry points: modules whose import registers opponents or memories.

    [project.entry-points."mage_envs.opponents"]
    my-package = "my_package.opponents"

Each is imported on the first lookup that misses or lists.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

_begun: set[EntryPoint] = set()


@cache
def announced(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, found when first asked."""
    return tuple(entry_points(group=group))


def load_announced(kind: str) -> None:
    """Imports every module announced in the group `mage_envs.<kind>` once, `kind` being `opponents` or `memories`.

    One that fails is a warning that names its package.
    """
    for entry in announced(f"mage_envs.{kind}"):
        if entry in _begun:
            continue
        _begun.add(entry)  # before the import: a plug-in may itself look up what there is
        try:
            entry.load()
        except Exception as error:  # somebody else's module may raise anything, and must not stop this one
            package = entry.dist.name if entry.dist is not None else entry.module
            warnings.warn(
                f"{kind.capitalize()} of package {package!r} ({entry.value}) could not be loaded: "
                f"{type(error).__name__}: {error}. Update or uninstall it.",
                stacklevel=3,
            )
