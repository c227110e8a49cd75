"""Marks of parameters: skips if a package is missing that does not exist for every Python, and `more`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mage_envs.games.alfworld.scenes import is_installed

needs_alfworld = pytest.mark.skipif(not is_installed(), reason='needs pip install "mage-envs[alfworld]"')


def mark_params(values: Iterable[Any], step: int = 1) -> list[Any]:
    """Return the values as parameters of a test. Those that begin with a name of ALFWorld need its packages.

    `make test` has every `step`-th, and `make test-more` has the others.
    """
    parameters = []
    for number, value in enumerate(values):
        row = value if type(value) is tuple else (value,)
        marks = [pytest.mark.more] if number % step else []
        if "alfworld" in str(row[0]).lower():
            marks.append(needs_alfworld)
        parameters.append(pytest.param(*row, marks=marks))
    return parameters
