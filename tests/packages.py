"""Skips of tests if a package is missing that does not exist for every Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mage_envs.games.alfworld.scenes import is_installed

needs_alfworld = pytest.mark.skipif(not is_installed(), reason='needs pip install "mage-envs[alfworld]"')


def mark_params(names: Iterable[str]) -> list[Any]:
    """The names as parameters of a test; those of ALFWorld need its packages."""
    return [pytest.param(name, marks=needs_alfworld) if "alfworld" in name.lower() else name for name in names]
