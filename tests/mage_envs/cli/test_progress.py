"""Progress lines of long work, and the commands that print them."""

from __future__ import annotations

import itertools
import logging
import re

import pytest

from mage_envs import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One entry: the seconds that the clock shows."""
    fake_time = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: fake_time[0])
    return fake_time


def test_lines_come_after_two_seconds_and_then_every_ten(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        tell = progress.Progress("A job", 40, "pieces")
        for num_done in range(1, 41):
            clock[0] += 0.5
            tell(num_done)
    assert caplog.messages == [
        "A job: 4 of 40 pieces, 18 s left.",
        "A job: 24 of 40 pieces, 8 s left.",
        "A job: 40 of 40 pieces, 20.0 s.",
    ]


def test_tokens_show_progress_within_a_long_first_unit(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        tell = progress.Progress("A job", 4, "pieces", at_once=True)
        tell(0)
        clock[0] += 15
        tell(0, tokens=1234)
    assert caplog.messages == ["A job: 0 of 4 pieces, starting.", "A job: 0 of 4 pieces, 1,234 tokens, starting."]


def test_nothing_done_and_all_done_say_nothing(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        tell = progress.Progress("A job", 1, "pieces")
        for clock[0], num_done in zip(itertools.count(200.0, 50.0), (0, 1)):
            tell(num_done)
    assert caplog.messages == []


def test_lines_are_shown_only_where_that_is_asked_for(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    tell = progress.Progress("A job", 4, "pieces")
    clock[0] += 2
    tell(1)
    with progress.show_lines():
        clock[0] += 10
        tell(2)
    clock[0] += 10
    tell(3)
    assert capsys.readouterr().err == "A job: 2 of 4 pieces, 12 s left.\n"


def test_long_work_is_reported_at_once_and_redrawn_on_a_terminal(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> str:
        with progress.show_lines():
            tell = progress.Progress("A job", 0, "pieces", at_once=True)
            for num_done in (2, 3, 4, 10):
                tell(num_done, 10, 2)
                clock[0] += 1
        return capsys.readouterr().err

    starting, third = "A job: 2 of 10 pieces, 2 of them from before, ", "A job: 3 of 10 pieces, 2 of them from before, "
    fourth_line, last_line = (f"A job: {num_done} of 10 pieces, 2 of them from before, " for num_done in (4, 10))
    assert work() == f"{starting}starting.\n{last_line}3.0 s.\n"
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    drawn_text = work()
    frames = [text for text in re.split(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n", drawn_text) if text]
    assert frames == [f"{starting}starting.", f"{third}7 s left.", f"{fourth_line}6 s left.", f"{last_line}3.0 s."]
    assert drawn_text.count("\n") == 1
    assert drawn_text.endswith("\n")
