"""The parts of the engine's benchmark, on tiny games; no time is checked."""

from __future__ import annotations

import os
import sys

import pytest

from dev.speed import alfworld as alfworld_speed
from mage_envs.games.alfworld.engine import NOTHING, FastEngine
from tests.games.alfworld.engine.games import needs_engine, tiny

pytestmark = needs_engine


def test_both_engines_are_timed_on_the_same_steps():
    fast, stock = alfworld_speed.side_by_side([tiny()], 3)
    for clocks in (fast, stock):
        assert (len(clocks.start.seconds), len(clocks.restart.seconds), len(clocks.step.seconds)) == (1, 1, 3)


def test_engines_that_differ_give_no_figures(monkeypatch):
    honest = FastEngine.step
    monkeypatch.setattr(FastEngine, "step", lambda self, command: honest(self, command)._replace(feedback=NOTHING))
    with pytest.raises(RuntimeError, match="The engines differ"):
        alfworld_speed.side_by_side([tiny()], 3)


def test_first_loads_leave_the_cache_alone():
    cache_before = os.environ.get(alfworld_speed.CACHE)
    translated, read = alfworld_speed.first_loads([tiny(index=3)])
    assert translated > 0
    assert read > 0
    assert os.environ.get(alfworld_speed.CACHE) == cache_before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_space_is_that_of_all_environments(monkeypatch):
    monkeypatch.setattr(alfworld_speed, "ENVIRONMENTS", 3)
    memory, files = alfworld_speed.in_child(lambda: alfworld_speed.space([tiny()]))
    assert memory > 10
    assert files > 3


def test_the_table_says_which_targets_are_met():
    line = alfworld_speed.Line("starts", 10.0, "ms", stock=1000.0, target="20 ms", bound=20, most=True)
    assert line.times == 100
    slow = alfworld_speed.Line("steps", 10.0, "per s", stock=5.0, target="11", bound=11)
    assert slow.times == 2
    rows = alfworld_speed.table([line, slow]).splitlines()
    assert rows[1].split() == ["starts", "10", "ms", "1,000", "100", "at", "most", "20", "ms", "met"]
    assert rows[2].endswith("at least 11    MISSED")
