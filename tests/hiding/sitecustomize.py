"""Hide the modules of HIDDEN_MODULES from this process, as if they were not installed.

Python imports this module at its start if this folder is on PYTHONPATH.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

HIDDEN = frozenset(os.environ["HIDDEN_MODULES"].split(","))


class HidingFinder(PathFinder):
    """Python's own finder, which does not find the hidden modules."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def, override]
        return None if fullname.partition(".")[0] in HIDDEN else super().find_spec(fullname, path, target)


sys.meta_path[:] = [HidingFinder if finder is PathFinder else finder for finder in sys.meta_path]
