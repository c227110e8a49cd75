"""The folders of a clone by their own names: `import opponents` is `mage_envs.opponents`.

The packages `opponents`, `wrappers`, `trainer` and `benchmarks` lie at the top of the repository and are imported as
parts of `mage_envs`, because the names alone are common ones: a user's own `wrappers.py` must stay importable. In a
clone, their folders can be imported by their names, too. Then they must be the same modules, or every registry would
exist twice. A wheel has no such folders at its top.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OWNER = "mage_envs"


class _FolderFinder(MetaPathFinder):
    """Finder of the modules below a folder that was imported by its own name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder, dot, submodule = fullname.partition(".")
        # `python -m FOLDER` needs the file of `__main__`. A user's own package of that name has another module.
        ours = sys.modules.get(folder) is sys.modules.get(f"{OWNER}.{folder}", self)
        if not dot or not ours or submodule == "__main__":
            return None
        return ModuleSpec(fullname, _SameModule())


class _SameModule(Loader):
    """Loader that returns the module of `mage_envs`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"{OWNER}.{spec.name}")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has replaced it by that of the second name.
        module.__spec__ = self._spec


def use_own_name(folder: str) -> None:
    """Replace the module `folder`, which is being imported, by that of `mage_envs`."""
    if not any(isinstance(finder, _FolderFinder) for finder in sys.meta_path):
        # Before the finder of files, which would find the modules of the folder a second time.
        sys.meta_path.insert(0, _FolderFinder())
    sys.modules[folder] = import_module(f"{OWNER}.{folder}")
