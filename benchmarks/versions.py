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
    versions = {"mage-envs": __version__}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def refuse_other_versions(sender_versions: Mapping[str, str]) -> None:
    """Raise RuntimeError if the sender of the work has another version of a package that is installed here, too."""
    local_versions = package_versions()
    # Optional packages may be missing on either side, so only packages that both sides have are compared.
    shared = sorted(sender_versions.keys() & local_versions.keys())
    differing = [
        f"{name} {sender_versions[name]} there, {local_versions[name]} here"
        for name in shared
        if sender_versions[name] != local_versions[name]
    ]
    if differing:
        raise RuntimeError(
            f"A worker on {platform.node()} has other package versions than the command that sent it work "
            f"({'; '.join(differing)}). Install the same versions on both."
        )
