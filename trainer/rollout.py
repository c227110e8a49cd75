"""The only rollout loop: drives many meta-episodes against one generator, for training and for evaluation alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from mage_envs.processes import DEADLINE, SLOW, Raised, Watch
from mage_envs.text.generation import Generator
from trainer.asking import LISTEN, ModelCalls, ModelReply, RolloutClock, tell_slow
from trainer.generation import StreamingGenerator
from trainer.playing import MISUSE, RolloutSpec, Run
from trainer.stages import Here, MakeEnv, Outcome, Stage
from trainer.trajectory import Failure, Trajectory

__all__ = ["RolloutClock", "RolloutSpec", "collect"]


class _Rollout:
    """The state of one `collect` call."""

    def __init__(
        self,
        slots: int,
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
        self.live: dict[int, tuple[int, Run]] = {}
        self._retries, self._limit = retries, reply_limit
        self.runs = [run for slot in range(slots) for run in self.start(slot)]
        """Those that the environment is to hear of next."""

    def start(self, slot: int) -> list[Run]:
        """The next spec's run, in a slot; nothing where none is left."""
        if not self.waiting:
            return []
        index, spec, failures = self.waiting.popleft()
        run = Run(slot, spec, self._limit, failures)
        self.live[slot] = (index, run)
        return [run]

    def finish(self, run: Run) -> list[Run]:
        """Files a finished run, or puts a failed one back into the queue; returns what follows in its slot."""
        index, _ = self.live.pop(run.slot)
        if run.failed and run.retry < self._retries:
            self.waiting.append((index, run.spec, run.failures))
        else:
            trajectory = run.trajectory()
            if self._on_finished is not None:
                self._on_finished(index, trajectory)
            self.done[index] = trajectory if self._reduce is None else self._reduce(trajectory)
        return self.start(run.slot)

    def take(self, answers: Sequence[tuple[int, ModelReply]], strict: bool) -> None:
        """Hands the model's answers to their runs."""
        self.runs = []
        for slot, answer in answers:
            run = self.live[slot][1]
            if strict and isinstance(answer, Raised) and isinstance(answer.error, MISUSE):
                raise answer.error
            run.take(answer)
            self.runs += self.finish(run) if run.over else [run]

    def hear(self, outcomes: Sequence[Outcome], strict: bool) -> list[Run]:
        """Hands the environments' outcomes to their runs; returns those that ask the model."""
        asking: list[Run] = []
        self.runs = []
        for slot, outcome in outcomes:
            run = self.live[slot][1]
            run.hear(outcome)
            if strict and run.misused is not None:
                run.misused.add_note(run.failures[-1].traceback)  # of a worker, which the error itself has lost
                raise run.misused
            if run.over:
                self.runs += self.finish(run)
            else:
                (self.runs if run.failed else asking).append(run)
        return asking

    def who(self) -> str:
        """What waits for the model, in words."""
        if not self.live:
            return "the model, which other ranks ask"
        first = min(self.live)
        return f"the model, for {len(self.live)} meta-episodes; the first: {self.live[first][1].who()}"


def collect(
    envs: Sequence[gym.Env[Any, Any]] | Stage,
    generator: Generator | StreamingGenerator,
    specs: Sequence[RolloutSpec],
    *,
    retries: int = 1,
    reply_limit: int = 0,
    env_timeout: float = DEADLINE,
    model_timeout: float = DEADLINE,
    make_env: MakeEnv | None = None,
    begun: bool = False,
    any_rank_live: Callable[[bool], bool] = bool,
    clock: RolloutClock | None = None,
    on_step: Callable[[int, int], None] | None = None,
    on_finished: Callable[[int, Trajectory], None] | None = None,
    reduce: Callable[[Trajectory], Trajectory] | None = None,
    slow_after: float = SLOW,
) -> list[Trajectory]:
    """Plays every spec once and returns the trajectories in the order of `specs`.

    Meta-episodes advance together, one environment each; as one ends, the next spec starts in its environment. While
    environments play, a streaming generator answers those that are ahead; in `WorkerEnvs` they play all at once. A
    reply's fate depends on its own spec alone, never on which others share the batch.

    What breaks, or is late, is a `Failure` of that meta-episode, which is played again up to `retries` times (the
    retry's index enters the sampling key). `env_timeout`: seconds that a call of an environment has, its opponents
    included; `model_timeout`: that a call of the generator has (0: for ever). `WorkerEnvs` can stop anything; in this
    process, what `Watch` can. After `slow_after` seconds one line says what is waited for. `make_env` replaces
    environments that failed. `begun`: whether this run played before; unless it did, a ValueError, TypeError or
    LookupError in the first reset of an environment, or in the first call of the generator, is raised: the run cannot
    be played at all.

    `reply_limit`: most tokens of a reply (for the length penalty; 0: unknown). `any_rank_live(mine)`: tells, when
    generation is collective, whether any rank still plays; idle ranks then generate for an empty batch. `clock`
    collects times; `on_step(done, all)` reports finished meta-episodes, `on_finished(place in specs, trajectory)` hands
    out each as soon as it is final. `reduce(trajectory)` makes of each what is returned, if it is to take less memory.
    """
    clock = clock if clock is not None else RolloutClock()
    started = clock.now()
    stage = envs if isinstance(envs, Stage) else Here(envs, make_env)
    if not len(stage) and specs:
        raise ValueError("collect() needs at least one environment.")
    rollout = _Rollout(
        slots=len(stage),
        specs=specs,
        retries=retries,
        reply_limit=reply_limit,
        on_finished=on_finished,
        reduce=reduce,
    )
    strict = not begun
    with Watch(tell_slow, slow_after) as watch:
        model = ModelCalls(generator, watch, model_timeout, collective=any_rank_live is not bool, clock=clock)
        try:
            while True:
                stage.begin([run.move() for run in rollout.runs], watch, env_timeout)
                patience = None if not model.streams else 0.0 if model.busy else LISTEN
                for run in rollout.hear(stage.ended(patience), strict):
                    model.submit(run.prompt)
                if rollout.runs or (stage.busy and not model.streams):
                    continue
                if on_step is not None and clock.calls:
                    on_step(sum(t is not None for t in rollout.done), len(specs))
                if not any_rank_live(bool(rollout.live)):
                    break
                answers = model.poll(rollout.who, strict, stage.pause if stage.busy else None)
                rollout.take(answers, strict)
                strict = strict and not answers
        finally:  # nothing goes on behind the caller's back after Ctrl-C, a preemption or an error
            stage.drop()
            model.cancel(rollout.who)
    clock.total += clock.now() - started
    finished = [trajectory for trajectory in rollout.done if trajectory is not None]
    if len(finished) != len(specs):
        raise RuntimeError(f"collect() lost {len(specs) - len(finished)} of {len(specs)} meta-episodes.")
    return finished
