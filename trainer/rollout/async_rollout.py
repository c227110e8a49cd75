"""A rollout that a thread plays while the trainer updates the model on the previous one. No torch here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from mage_envs.wrappers.rollout.loop import RolloutClock
from mage_envs.wrappers.rollout.trajectory import Trajectory

CANCEL_TIMEOUT_S = 60.0
"""Timeout in seconds for a rollout to end after `cancel`."""
_log = logging.getLogger(__name__)


class RolloutCancelled(BaseException):
    """Signal that ends an abandoned rollout."""

    # A BaseException, so that no `except Exception` on the way up turns it into a failed meta-episode.


class AsyncRollout:
    """A rollout that a thread plays with the weights that the sampler holds at its start.

    Args:
        index: Index of the rollout in the run.
        step: Optimiser steps of the run when the rollout starts, from which its staleness is counted.
        play: Function that plays the rollout. It receives a clock, and a check to call between replies.
    """

    def __init__(
        self, index: int, step: int, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]
    ) -> None:
        self.index, self.step = index, step
        self.clock = RolloutClock()
        self._played: Future[list[Trajectory]] = Future()
        self._given_up = False
        # A daemon, so that a rollout that hangs cannot keep the process alive at its end.
        self._thread = threading.Thread(target=self._run, args=(play,), daemon=True, name="mage-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Block until the thread ends, with a result or with an error."""
        self._thread.join()

    def result(self) -> list[Trajectory]:
        """Return the trajectories after the thread ends, or raise the error that ended it."""
        return self._played.result()

    def cancel(self) -> None:
        """Stop the rollout at its next reply, and wait up to `CANCEL_TIMEOUT_S` seconds for it."""
        self._given_up = True
        self._thread.join(CANCEL_TIMEOUT_S)
        if self._thread.is_alive():
            _log.warning("Rollout %d, which was played ahead, did not end within %.0f s.", self.index, CANCEL_TIMEOUT_S)

    def _run(self, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]) -> None:
        try:
            self._played.set_result(play(self.clock, self._check))
        # An error that leaves a thread is only printed. `result` raises it in the trainer's thread instead.
        except BaseException as error:
            self._played.set_exception(error)

    def _check(self, *progress: object) -> None:
        if self._given_up:
            raise RolloutCancelled
