"""The terminal of the tests of `mage play`, and pages of the arena that wait for exact values on a busy machine."""

import pytest

from mage_envs.benchmarks.play import arena
from tests.mage_envs.cli.conftest import open_terminal

__all__ = ["open_terminal"]


@pytest.fixture(autouse=True)
def _pages_wait_for_exact_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "SOLVED_WITHIN_S", 200)
