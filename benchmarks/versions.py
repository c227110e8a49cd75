"""Package versions behind a result, and the check that a worker has the same ones."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mage_envs import __version__

_PACKAGES = ("gymnasium", "numpy", "open_spiel", "textworld", "alfworld", "torch", "transformers", "trl")
"""Packages that results depend on."""


@cache
def package_versions() -> Mapping[str, str]:
    """Return the versions of this project and of the packages in `_PACKAGES`, if they are installed."""
    found = {"mage-envs": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def refuse_other_versions(there: Mapping[str, str]) -> None:
    """Raise RuntimeError if the sender of the work has another version of a package that is installed here, too."""
    here = package_versions()
    # Optional packages may be missing on either side, so only packages that both sides have are compared.
    shared = sorted(there.keys() & here.keys())
    differing = [f"{name} {there[name]} there, {here[name]} here" for name in shared if there[name] != here[name]]
    if differing:
        raise RuntimeError(
            f"A worker on {platform.node()} has other package versions than the command that sent it work "
            f"({'; '.join(differing)}). Install the same versions on both."
        )
