"""Distribution of an evaluation over the workers of an executor, in pieces."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mage_envs.benchmarks.evaluation.run.evaluate import PanelPlayer
from mage_envs.benchmarks.executors.jobs import Conditions, Executor, unwrap
from mage_envs.benchmarks.records.about import agent_of, setting_of
from mage_envs.benchmarks.records.record_store import SHARD
from mage_envs.opponents.llm.names import read_servers, remember_servers
from mage_envs.processes.call_outcomes import WorkerLost
from mage_envs.wrappers.rollout.trajectory import Trajectory

LOGGER = logging.getLogger(__name__)
_SENT = ("agent", "panel", "setting", "env_kwargs", "imports", "fingerprint")
"""Parts of run.json from which a worker creates the setting."""


@dataclass(frozen=True)
class Playing:
    """Names and settings from which a worker creates its player."""

    agent: str
    about: Mapping[str, Any]
    batch: int
    env_timeout: float
    servers: Mapping[str, str] = field(default_factory=dict)
    """Servers of opponents that are models, by their names (`mage_envs.opponents.llm.names`)."""

    def __call__(self) -> PiecePlayer:
        """Return the player, created once per process.

        Raises:
            RuntimeError: If the worker finds another panel or agent.
        """
        return PiecePlayer(self)


class PiecePlayer:
    """Plays pieces of a panel with one agent and one set of environments."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing
        if playing.servers:
            remember_servers(playing.servers)
        setting = setting_of(playing.about)
        # A worker may have other data under the same path. Its meta-episodes would be scored as if they belonged to
        # this panel.
        if setting.fingerprint != playing.about["fingerprint"]:
            raise RuntimeError(
                f"{setting.name} is another setting on a worker (fingerprint {setting.fingerprint[:12]}, "
                f"expected {playing.about['fingerprint'][:12]}): its data differ."
            )
        self._tasks = setting.tasks
        agent = agent_of(playing.agent, playing.about["agent"], setting.game_name)
        self._play = PanelPlayer(agent, self._tasks, setting.options)

    def __call__(self, indices: Sequence[int]) -> list[Trajectory]:
        """Return the meta-episodes at these indices of the panel."""
        return self._play([self._tasks[index] for index in indices], self._playing.batch, self._playing.env_timeout)


def play_spread(
    executor: Executor,
    agent: str,
    about: Mapping[str, Any],
    todo: Sequence[int],
    on_finished: Callable[[int, Trajectory], None],
    *,
    batch: int,
    env_timeout: float,
) -> list[str]:
    """Play a part of a panel with an executor.

    Args:
        executor: Executor of several processes.
        about: Contents of the run's run.json.
        todo: Indices of the tasks to play.
        on_finished: Callback with the index and the trajectory of each meta-episode. It is called in this process in
            any order.
        batch: Number of meta-episodes played concurrently by a worker.
        env_timeout: Timeout per environment step in seconds (0: none).

    Returns:
        One line per lost worker. Its meta-episodes were not played.
    """
    # A piece fills at most one shard, so a lost worker costs little. Smaller pieces occupy all workers if few tasks are
    # left.
    size = min(SHARD, -(-len(todo) // executor.pieces))
    jobs = [tuple(todo[start : start + size]) for start in range(0, len(todo), size)]
    playing = Playing(
        agent=agent,
        about={name: about[name] for name in _SENT},
        batch=batch,
        env_timeout=env_timeout,
        servers=read_servers(),
    )
    lost = []
    conditions = Conditions(tell=partial(_tell_slow, jobs))
    with contextlib.closing(executor.run(playing, jobs, conditions)) as running:
        for number, outcome in running:
            piece = _describe_piece(jobs[number])
            if isinstance(outcome, WorkerLost):
                lost.append(f"{piece}: {outcome.reason}")
                continue
            for index, trajectory in zip(jobs[number], unwrap(outcome, piece), strict=True):
                on_finished(index, trajectory)
    return lost


def _describe_piece(indices: Sequence[int]) -> str:
    """Return a description of a piece."""
    return f"meta-episodes {indices[0]} to {indices[-1]}"


def _tell_slow(jobs: Sequence[Sequence[int]], number: int, seconds: float) -> None:
    """Log that a piece is slow."""
    LOGGER.warning("Waited %.0f s for %s so far.", seconds, _describe_piece(jobs[number]))
