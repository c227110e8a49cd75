"""Which packages a result comes from, and whether a worker has the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mage_envs import __version__

_PACKAGES = ("gymnasium", "numpy", "open_spiel", "textworld", "alfworld", "torch", "transformers", "trl")


@cache
def package_versions() -> Mapping[str, str]:
    """Of this project and of what results depend on, as far as it is installed."""
    found = {"mage-envs": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def refuse_other_versions(there: Mapping[str, str]) -> None:
    """Raises RuntimeError where whoever sent the work has another version of a package that is here too."""
    here = package_versions()
    shared = sorted(there.keys() & here.keys())
    differing = [f"{name} {there[name]} there, {here[name]} here" for name in shared if there[name] != here[name]]
    if differing:
        raise RuntimeError(
            f"A worker on {platform.node()} has other versions than the command that sent it work "
            f"({'; '.join(differing)}); install the same ones on both."
        )
