"""A rollout that a thread plays while another one is trained on. No torch here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from trainer.rollout import RolloutClock
from trainer.trajectory import Trajectory

GRACE = 60.0
"""Seconds that a rollout which is given up has to end."""
_log = logging.getLogger(__name__)


class GivenUp(BaseException):
    """Nobody waits for the rollout any more."""


class PlayedAhead:
    """The rollout `index`, played with the weights that the sampler had after `step` optimiser steps."""

    def __init__(
        self, index: int, step: int, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]
    ) -> None:
        """`play(clock, check)` plays it, and calls `check` now and then."""
        self.index, self.step = index, step
        self.clock = RolloutClock()
        self._played: list[Trajectory] = []
        self._error: BaseException | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, args=(play,), daemon=True, name="mage-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Until it has ended, in whatever way."""
        self._thread.join()

    def result(self) -> list[Trajectory]:
        """What was played, once it has ended; raises what was raised there."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._played

    def give_up(self) -> None:
        """Ends it at its next reply."""
        self._given_up = True
        self._thread.join(GRACE)
        if self._thread.is_alive():
            _log.warning("Rollout %d, which was played ahead, did not end within %.0f s.", self.index, GRACE)

    def _run(self, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]) -> None:
        try:
            self._played = play(self.clock, self._check)
        except BaseException as error:  # whoever waits for the result raises it
            self._error = error

    def _check(self, *progress: object) -> None:
        if self._given_up:
            raise GivenUp
