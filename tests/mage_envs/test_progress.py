"""What long work says of itself, and who shows it."""

from __future__ import annotations

import itertools
import logging

import pytest

from mage_envs import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One entry: the seconds that the clock shows."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_come_after_two_seconds_and_then_every_ten(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        tell = progress.Progress("A job", 40, "pieces")
        for done in range(1, 41):
            clock[0] += 0.5
            tell(done)
    assert caplog.messages == ["A job: 4 of 40 pieces, 18 s left.", "A job: 24 of 40 pieces, 8 s left."]


def test_nothing_done_and_all_done_say_nothing(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        tell = progress.Progress("A job", 1, "pieces")
        for clock[0], done in zip(itertools.count(200.0, 50.0), (0, 1)):
            tell(done)
    assert caplog.messages == []


def test_lines_are_shown_only_where_that_is_asked_for(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    tell = progress.Progress("A job", 4, "pieces")
    clock[0] += 2
    tell(1)
    with progress.shown():
        clock[0] += 10
        tell(2)
    clock[0] += 10
    tell(3)
    assert capsys.readouterr().err == "A job: 2 of 4 pieces, 12 s left.\n"
