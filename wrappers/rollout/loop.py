"""The only rollout loop: plays many meta-episodes with one generator, for training and for evaluation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from mage_envs.processes.call_outcomes import CallError
from mage_envs.processes.watchdog import CALL_TIMEOUT_S, SLOW_AFTER_S, Watchdog
from mage_envs.text.generation import Generator, StreamingGenerator
from mage_envs.wrappers.rollout.env_pool import EnvPool, InProcessEnvs, MakeEnv, Outcome
from mage_envs.wrappers.rollout.generation_client import (
    POLL_INTERVAL_S,
    GenerationClient,
    ModelReply,
    RolloutClock,
    warn_slow,
)
from mage_envs.wrappers.rollout.playing import MISUSE, MetaEpisodeRollout, RolloutSpec
from mage_envs.wrappers.rollout.trajectory import Failure, Trajectory

__all__ = ["RolloutClock", "RolloutSpec", "collect"]


class _Rollout:
    """The state of one `collect` call."""

    def __init__(
        self,
        slots: int,
        at_once: int,
        specs: Sequence[RolloutSpec],
        retries: int,
        reply_limit: int,
        on_finished: Callable[[int, Trajectory], None] | None,
        reduce: Callable[[Trajectory], Trajectory] | None,
    ) -> None:
        self._on_finished, self._reduce = on_finished, reduce
        self.waiting: deque[tuple[int, RolloutSpec, tuple[Failure, ...]]] = deque(
            (index, spec, ()) for index, spec in enumerate(specs)
        )
        self.done: list[Trajectory | None] = [None] * len(specs)
        self.live: dict[int, tuple[int, MetaEpisodeRollout]] = {}
        self._retries, self._limit = retries, reply_limit
        self._spare = range(at_once, slots)
        """Slots that stay empty until they can hold all specs that are left."""
        self.runs = [run for slot in range(min(at_once, slots)) for run in self.start(slot)] + self._start_rest()
        """Runs with an environment call to start next."""

    def start(self, slot: int) -> list[MetaEpisodeRollout]:
        """Return the run of the next spec in a slot, as a list; empty if no spec is left."""
        if not self.waiting:
            return []
        index, spec, failures = self.waiting.popleft()
        run = MetaEpisodeRollout(slot, spec, self._limit, failures)
        self.live[slot] = (index, run)
        return [run]

    def _start_rest(self) -> list[MetaEpisodeRollout]:
        """Return the runs of all specs that are left, once the spare slots can hold them."""
        if len(self.waiting) > len(self._spare):
            return []
        slots, self._spare = self._spare, range(0)
        return [run for slot in slots for run in self.start(slot)]

    def finish(self, run: MetaEpisodeRollout) -> list[MetaEpisodeRollout]:
        """Store a finished run, or queue its spec again after a failure; return the next run of its slot."""
        index, _ = self.live.pop(run.slot)
        if run.failed and run.retry < self._retries:
            # At the end of the queue, so that the retry starts late: a server may have recovered by then.
            self.waiting.append((index, run.spec, run.failures))
        else:
            trajectory = run.trajectory()
            if self._on_finished is not None:
                self._on_finished(index, trajectory)
            # After `on_finished`, which gets the whole trajectory.
            self.done[index] = trajectory if self._reduce is None else self._reduce(trajectory)
        return self.start(run.slot) + self._start_rest()

    def on_completions(self, answers: Sequence[tuple[int, ModelReply]], strict: bool) -> None:
        """Pass the model's answers to their runs. With `strict`, raise an error of misuse."""
        self.runs = []
        for slot, answer in answers:
            run = self.live[slot][1]
            if strict and isinstance(answer, CallError) and isinstance(answer.error, MISUSE):
                raise answer.error
            run.on_completion(answer)
            self.runs += self.finish(run) if run.over else [run]

    def on_env_results(self, outcomes: Sequence[Outcome], strict: bool) -> list[MetaEpisodeRollout]:
        """Pass the environments' outcomes to their runs; return the runs that wait for the model.

        With `strict`, raises an error which means that the run cannot be played at all.
        """
        asking: list[MetaEpisodeRollout] = []
        self.runs = []
        for slot, outcome in outcomes:
            run = self.live[slot][1]
            run.on_env_result(outcome)
            if strict and run.misused is not None:
                # The traceback of a worker: the exception itself lost it when it was sent.
                run.misused.add_note(run.failures[-1].traceback)
                raise run.misused
            # A failed run is not over yet: its next call is a `FailureInfoCall`, which needs no answer of the model.
            if run.over:
                self.runs += self.finish(run)
            else:
                (self.runs if run.failed else asking).append(run)
        return asking

    def describe(self) -> str:
        """Return a description of the runs that wait for the model."""
        if not self.live:
            return "the model, which other ranks call"
        first_slot = min(self.live)
        return f"the model, for {len(self.live)} meta-episodes; the first: {self.live[first_slot][1].describe()}"


def collect(
    envs: Sequence[gym.Env[Any, Any]] | EnvPool,
    generator: Generator | StreamingGenerator,
    specs: Sequence[RolloutSpec],
    *,
    at_once: int | None = None,
    retries: int = 1,
    reply_limit: int = 0,
    env_timeout: float = CALL_TIMEOUT_S,
    model_timeout: float = CALL_TIMEOUT_S,
    make_env: MakeEnv | None = None,
    begun: bool = False,
    any_rank_live: Callable[[bool], bool] = bool,
    clock: RolloutClock | None = None,
    on_step: Callable[[int, int], None] | None = None,
    on_finished: Callable[[int, Trajectory], None] | None = None,
    reduce: Callable[[Trajectory], Trajectory] | None = None,
    slow_after: float = SLOW_AFTER_S,
) -> list[Trajectory]:
    """Play every spec once, and return the trajectories in the order of `specs`.

    Meta-episodes advance together, one environment each. When one ends, the next spec starts in its environment. While
    environments play, a streaming generator answers the meta-episodes that are ahead. In `WorkerProcessEnvs`, all
    environments play at once. A reply depends on its own spec only, never on the other meta-episodes of the batch.

    An exception or a timeout is a `Failure` of its meta-episode, which is played again up to `retries` times. The
    retry's index is part of the sampling key. `WorkerProcessEnvs` can stop any call; in this process, `Watchdog`
    states what can be interrupted.

    Args:
        envs: Environments of this process, or a pool of workers.
        generator: The model, in lock-step batches or streaming.
        specs: Meta-episodes to play.
        at_once: Number of meta-episodes to play at once (default: one per environment). The other environments start
            when they can hold all specs that are left, so that the last ones end together.
        retries: Further attempts after a failed one.
        reply_limit: Most tokens of a reply, for the length penalty (0: unknown).
        env_timeout: Seconds for a call of an environment, opponents included (0 disables it).
        model_timeout: Seconds for a call of the generator (0 disables it).
        make_env: Makes an environment in place of one that failed.
        begun: True if this run has played before. See `Raises`.
        any_rank_live: Called with True if this rank still plays; returns True if any rank does. Needed if generation is
            collective: idle ranks then generate for an empty batch.
        clock: Collects the times of the rollout.
        on_step: Called with the number of finished meta-episodes and of all.
        on_finished: Called with each trajectory and its place in `specs` as soon as it is final.
        reduce: Replaces each trajectory in the result, for example by one that needs less memory.
        slow_after: Seconds after which one line reports a call that is still running.

    Returns:
        One trajectory per spec.

    Raises:
        ValueError, TypeError, LookupError: Unless `begun`, if an environment's first reset or the first call of the
        generator raises one of these. Then the run cannot be played at all.
        RunStopped: If a streaming generator is dead.
    """
    clock = clock if clock is not None else RolloutClock()
    start_time = clock.now()
    pool = envs if isinstance(envs, EnvPool) else InProcessEnvs(envs, make_env)
    if not len(pool) and specs:
        raise ValueError("collect() needs at least one environment.")
    rollout = _Rollout(
        slots=len(pool),
        at_once=len(pool) if at_once is None else at_once,
        specs=specs,
        retries=retries,
        reply_limit=reply_limit,
        on_finished=on_finished,
        reduce=reduce,
    )
    # Until the first reply, some errors mean wrong settings. They end the run at once instead of failing every
    # meta-episode.
    strict = not begun
    with Watchdog(warn_slow, slow_after) as watch:
        # `bool` is the default of `any_rank_live`, so any other function means that the generator is collective.
        model = GenerationClient(generator, watch, model_timeout, collective=any_rank_live is not bool, clock=clock)
        try:
            while True:
                # All moves start before any outcome is read, so that workers play at once.
                pool.submit([run.next_env_call() for run in rollout.runs], watch, env_timeout)
                # A lock-step generator needs whole batches, so wait for all environments. A streaming one that has
                # prompts is polled below, so only collect the outcomes that are ready.
                patience = None
                if model.streams:
                    patience = 0.0 if model.busy else POLL_INTERVAL_S
                for run in rollout.on_env_results(pool.poll(patience), strict):
                    model.submit(run.prompt)
                # New resets, and queries after failures, need no reply: run them before the model is called, so that
                # its batch is full.
                if rollout.runs or (pool.busy and not model.streams):
                    continue
                if on_step is not None and clock.calls:
                    on_step(sum(t is not None for t in rollout.done), len(specs))
                # After `on_step`, which may stop the rollout. Ranks without meta-episodes stay in the loop until all
                # are done.
                if not any_rank_live(bool(rollout.live)):
                    break
                answers = model.poll(rollout.describe, strict, pool.pause if pool.busy else None)
                rollout.on_completions(answers, strict)
                # The first reply proves that the settings work.
                strict = strict and not answers
        finally:
            # No call may continue behind the caller's back after Ctrl-C, a preemption or an error.
            pool.cancel()
            model.cancel(rollout.describe)
    clock.total += clock.now() - start_time
    finished = [trajectory for trajectory in rollout.done if trajectory is not None]
    if len(finished) != len(specs):
        raise RuntimeError(f"collect() lost {len(specs) - len(finished)} of {len(specs)} meta-episodes.")
    return finished
