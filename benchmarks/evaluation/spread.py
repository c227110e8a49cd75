"""An evaluation in pieces, wherever an executor plays them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.evaluation.evaluate import PanelPlayer
from benchmarks.executors import Conditions, Executor, given
from benchmarks.records.about import agent_of, setting_of
from benchmarks.records.store import SHARD
from mage_envs.processes import Lost
from trainer.trajectory import Trajectory

LOGGER = logging.getLogger(__name__)
_SENT = ("agent", "panel", "env_kwargs", "imports", "fingerprint")
"""Parts of run.json from which a worker makes the setting."""


@dataclass(frozen=True)
class Playing:
    """What a worker makes its player from: names and settings."""

    about: Mapping[str, Any]
    batch: int
    env_timeout: float

    def __call__(self) -> PiecePlayer:
        """The player, once per process. RuntimeError where the panel is another one there."""
        return PiecePlayer(self)


class PiecePlayer:
    """Plays pieces of a panel; the agent and the environments are made once and serve all of them."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing
        setting = setting_of(playing.about)
        if setting.fingerprint != playing.about["fingerprint"]:
            raise RuntimeError(
                f"Where a worker plays, {setting.name} is another setting (fingerprint "
                f"{setting.fingerprint[:12]}, not {playing.about['fingerprint'][:12]}): its data differ."
            )
        self._tasks = setting.tasks
        self._play = PanelPlayer(agent_of(playing.about["agent"], setting.game_name), self._tasks, setting.options)

    def __call__(self, places: Sequence[int]) -> list[Trajectory]:
        """The meta-episodes at these places of the panel."""
        return self._play([self._tasks[place] for place in places], self._playing.batch, self._playing.env_timeout)


def play_spread(
    executor: Executor,
    about: Mapping[str, Any],
    todo: Sequence[int],
    on_finished: Callable[[int, Trajectory], None],
    *,
    batch: int,
    env_timeout: float,
) -> list[str]:
    """Plays these places of the panel of the run that `about` tells of; says what workers took with them, in words.

    `on_finished(place in the panel, trajectory)` is called here, in any order. What a lost worker had is not played.
    """
    size = min(SHARD, -(-len(todo) // executor.pieces))
    jobs = [tuple(todo[start : start + size]) for start in range(0, len(todo), size)]
    playing = Playing(
        about={name: about[name] for name in _SENT},
        batch=batch,
        env_timeout=env_timeout,
    )
    lost = []
    conditions = Conditions(tell=partial(_tell_slow, jobs))
    with contextlib.closing(executor.run(playing, jobs, conditions)) as running:
        for number, outcome in running:
            who = _named(jobs[number])
            if isinstance(outcome, Lost):
                lost.append(f"{who}: {outcome.reason}")
                continue
            for place, trajectory in zip(jobs[number], given(outcome, who), strict=True):
                on_finished(place, trajectory)
    return lost


def _named(places: Sequence[int]) -> str:
    return f"meta-episodes {places[0]} to {places[-1]}"


def _tell_slow(jobs: Sequence[Sequence[int]], number: int, seconds: float) -> None:
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, _named(jobs[number]))
