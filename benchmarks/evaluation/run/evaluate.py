"""`evaluate`: evaluation of an agent on a panel through the shared rollout loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, EndpointAgent, PolicyAgent
from mage_envs.benchmarks.evaluation.run.budget import SPENT, Limits, limit_calls
from mage_envs.benchmarks.evaluation.run.function_agent import FunctionAgent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.suites.environments import check_opponents, env_maker, game_of
from mage_envs.core import Task
from mage_envs.processes.call_outcomes import TRACEBACK
from mage_envs.processes.watchdog import CALL_TIMEOUT_S
from mage_envs.progress import Progress
from mage_envs.wrappers.rollout.env_pool import RolloutEnvs
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.trajectory import Trajectory


class PanelPlayer:
    """Plays tasks of one environment with one agent.

    The environments are created on demand and reused until `close`.
    """

    def __init__(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        env_kwargs: Mapping[str, Any] | None = None,
        *,
        workers: int = 0,
        memory_gb: float = 0.0,
        limits: Limits | None = None,
    ) -> None:
        """Create the generator and check the opponents.

        Args:
            tasks: All tasks that may be played.
            workers: Number of worker processes (0: this process).
            memory_gb: Maximum address space of each worker in GiB (0: no limit).
            limits: Budget of the model calls.
        """
        env_id = tasks[0].env_id
        game = game_of(env_id, env_kwargs)
        # The agent's own memory is under the environment's control, too.
        memory = (env_kwargs or {}).get("memory")
        if isinstance(agent, PolicyAgent | FunctionAgent):
            generator = agent.generator(game, memory)
        else:
            generator = agent.generator(game)
        self._generator = limit_calls(generator, limits)
        check_opponents(tasks, game)
        self._envs = RolloutEnvs(env_maker(env_id, env_kwargs), workers, memory_gb)
        self._slots = agent.slots if isinstance(agent, EndpointAgent) else None

    def __call__(
        self,
        tasks: Sequence[Task],
        batch: int,
        env_timeout: float,
        *,
        on_step: Callable[[int, int], None] | None = None,
        on_finished: Callable[[int, Trajectory], None] | None = None,
        reduce: Callable[[Trajectory], Trajectory] | None = None,
    ) -> list[Trajectory]:
        """Return the meta-episodes of the tasks in their order. A failed one is retried once.

        Args:
            batch: Number of meta-episodes played concurrently.
            env_timeout: Timeout per environment step in seconds (0: none).
            on_step: Callback with the numbers of finished and of all meta-episodes.
            on_finished: Callback with the index and the trajectory of each final meta-episode.
            reduce: Function that returns a smaller trajectory to keep.
        """
        at_once, in_flight = depth_first(len(tasks), batch, self._slots)
        trajectories = collect(
            self._envs.pool(in_flight),
            self._generator,
            [RolloutSpec(task) for task in tasks],
            at_once=at_once,
            env_timeout=env_timeout,
            make_env=self._envs.make_env,
            on_step=on_step,
            on_finished=on_finished,
            reduce=reduce,
        )
        if any(trajectory.failures for trajectory in trajectories):
            # After a failure the state of an environment is unknown, so the next call must not reuse it.
            self._envs.renew()
        return trajectories

    def close(self) -> None:
        """Stop the worker processes."""
        self._envs.close()


def evaluate(
    agent: Agent,
    panel: Sequence[Task],
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int = EvalOptions.batch,
    workers: int = 0,
    env_timeout: float = CALL_TIMEOUT_S,
    memory_gb: float = 0.0,
    on_step: Callable[[int, int], None] | None = None,
    on_finished: Callable[[int, Trajectory], None] | None = None,
    reduce: Callable[[Trajectory], Trajectory] | None = None,
    limits: Limits | None = None,
    failure_log: FailureLog | None = None,
    resumed: bool = False,
) -> list[Trajectory]:
    """Play every task of `panel` once, with all wrappers of its id, and return the trajectories in the panel's order.

    A generator with `submit` and `poll` streams: no meta-episode waits for the reply to another one. A failed
    meta-episode is retried once and then returned with its `failure`. Replies do not depend on `batch` or `workers`.

    Args:
        panel: Tasks, which must share one environment id.
        batch: Number of meta-episodes played concurrently.
        workers: Number of worker processes for environments and opponents (0: this process).
        env_timeout: Timeout in seconds per environment step, opponents included (0: none).
        memory_gb: Maximum address space of each worker in GiB (0: no limit).
        on_step: Callback with the numbers of finished and of all meta-episodes, called after each round.
        on_finished: Callback with the index in the panel and the trajectory of each final meta-episode.
        reduce: Function that returns a smaller trajectory to keep, which saves memory.
        limits: Budget of the model calls. A meta-episode beyond it has a `failure` of the kind `generator: budget`.
        failure_log: Failure log for tracebacks, including that of an error that ends the evaluation.
        resumed: True if other meta-episodes of the run were finished before. Then those of `panel` may all fail.

    Raises:
        RuntimeError: If every meta-episode failed. The message contains the first reason.
        ValueError: If the panel is empty or mixes ids, or if an argument is out of range.
    """
    if not panel:
        raise ValueError("The panel holds no task.")
    if len({task.env_id for task in panel}) > 1:
        raise ValueError("The tasks of a panel must share one environment id. Evaluate each id separately.")
    if batch < 1 or workers < 0:
        raise ValueError(f"evaluate() requires batch >= 1 and workers >= 0, got {batch} and {workers}.")
    if memory_gb and not workers:
        raise ValueError(f"memory_gb={memory_gb:g} limits worker processes. Use at least one worker.")
    # Further workers would have no environment to play.
    workers = min(workers, batch, len(panel))
    player = PanelPlayer(agent, panel, env_kwargs, workers=workers, memory_gb=memory_gb, limits=limits)
    failure_entries = nullcontext() if failure_log is None else failure_log.record_crash("eval", 0)
    with closing(player), failure_entries:
        trajectories = player(panel, batch, env_timeout, on_step=on_step, on_finished=on_finished, reduce=reduce)
    account(trajectories, agent.name, failure_log, resumed)
    return trajectories


def depth_first(count: int, batch: int, slots: int | None) -> tuple[int, int]:
    """Return how many meta-episodes to play at once, and how many of them at the end.

    An endpoint with fewer slots than meta-episodes in flight advances all of them a little, so that a limit or a crash
    at half finds hardly any finished. So there is one per slot, until half of them are finished. The last ones start
    together, because otherwise they would end one by one and leave most slots idle.

    Args:
        count: Number of meta-episodes.
        batch: Maximum number in flight.
        slots: Number of calls that may run at once, or None for an agent that answers whole batches.
    """
    at_once = min(batch, count) if slots is None else min(batch, count, slots)
    # At least the rest of the division, which would be played alone after the last full round.
    final_round = max(count % at_once, min(at_once, (count - at_once) // 2))
    return at_once, min(batch, at_once + final_round)


def account(
    trajectories: Sequence[Trajectory], agent: str, failure_log: FailureLog | None, resumed: bool = False
) -> None:
    """Record failures in the failure log.

    Args:
        trajectories: Meta-episodes that were played.
        agent: Name of the agent, for the message.
        failure_log: Failure log of the run, if there is one.
        resumed: True if other meta-episodes of the run were finished before.

    Raises:
        RuntimeError: If every meta-episode failed, and none of them because of the budget.
    """
    if failure_log is not None:
        failure_log.record([t for t in trajectories if not is_out_of_budget(t)], "eval", 0)
    failures = [t.failure for t in trajectories if t.failure is not None]
    if len(failures) == len(trajectories) and not resumed and not any(is_out_of_budget(t) for t in trajectories):
        error = RuntimeError(f"All {len(failures)} meta-episodes of {agent} failed; the first: {failures[0]}")
        if failure_log is not None:
            error.add_note(f"{TRACEBACK} {failure_log.path}")
        raise error


def is_out_of_budget(trajectory: Trajectory) -> bool:
    """Return True if a meta-episode was not finished because the budget was exhausted."""
    return (trajectory.failure or "").startswith(f"generator: {SPENT}: ")


@contextmanager
def failure_log_in(folder: Path | None) -> Iterator[FailureLog]:
    """Yield a failure log in the folder, or in a temporary folder that is removed unless something failed.

    At the end, the totals of new failures are written to stderr with the name of the file.
    """
    failure_log = FailureLog(folder or mkdtemp(prefix="mage-eval-"))
    # An evaluation has no optimiser steps: 0 keeps its lines and drops only an incomplete last one.
    failure_log.resume(0)
    earlier_failures = failure_log.count
    try:
        yield failure_log
        if failure_log.count > earlier_failures:
            sys.stderr.write(f"{failure_log.summary()}\n")
    finally:
        if folder is None and not failure_log.path.exists():
            failure_log.path.parent.rmdir()


def progress_of(label: str, unit: str = "meta-episodes") -> Progress:
    """Return a progress display for slow work, which is shown from the beginning."""
    return Progress(label, 0, unit, at_once=True)
