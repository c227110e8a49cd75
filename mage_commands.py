"""The commands. Nothing of the suite is imported before Ctrl-C is caught, so that it ends any of them in one line."""

from __future__ import annotations

import sys
from importlib import import_module

PROGRAMS = {"mage-envs": "mage_envs.__main__", "mage-train": "trainer.__main__", "mage-bench": "benchmarks.__main__"}
"""Console script to the module whose `main` it runs."""


def envs() -> int:
    """`mage-envs`."""
    return _run("mage-envs")


def train() -> int:
    """`mage-train`."""
    return _run("mage-train")


def bench() -> int:
    """`mage-bench`."""
    return _run("mage-bench")


def _run(name: str) -> int:
    """The exit status of a command: 130 after Ctrl-C, also while its modules are being imported."""
    try:
        status: int = import_module(PROGRAMS[name]).main()
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{name}: interrupted.\n")
        return 130
    return status
