"""The only rollout loop: drives many meta-episodes against one generator, for training and for evaluation alike."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym

from mage_envs.processes import DEADLINE, SLOW, Late, Lost, Raised, Watch, attempt
from mage_envs.processes.outcomes import HANG, told
from mage_envs.text.generation import Completion, Generator, Prompt
from trainer.generation import StreamingGenerator
from trainer.metrics import RunStopped
from trainer.playing import MISUSE, ModelReply, RolloutSpec, Run
from trainer.stages import Here, MakeEnv, Stage, WorkerEnvs
from trainer.trajectory import Failure, Trajectory

__all__ = ["RolloutClock", "RolloutSpec", "collect"]

LOGGER = logging.getLogger(__name__)


class _Model:
    """A generator of either kind, asked within a deadline; what a call raises becomes the answer to its prompts.

    All prompts of a lock-step generator are one call. In a call that is collective over ranks nothing is caught and
    nothing interrupted, as the other ranks could not know. All prompts that a streaming one has under way fail together
    when it hangs or breaks; when it does so again before it has answered anything, it is dead.
    """

    def __init__(
        self, generator: Generator | StreamingGenerator, watch: Watch, deadline: float, collective: bool
    ) -> None:
        streams = isinstance(generator, StreamingGenerator)  # once: it takes longer than a move in Kuhn Poker
        self._streaming = cast(StreamingGenerator, generator) if streams else None
        self._lock_step = cast(Generator, generator)
        self._watch = watch
        self._deadline = 0.0 if collective else deadline
        self._collective = collective
        self._waiting: list[Prompt] = []
        self._refused: list[tuple[int, ModelReply]] = []
        self._streamed: set[int] = set()
        """Slots whose prompts a streaming backend has under way."""
        self._silent = False
        """Whether a streaming backend broke, and has answered nothing since."""

    def submit(self, prompt: Prompt) -> None:
        """Asks for an answer to a prompt."""
        if self._streaming is None:
            self._waiting.append(prompt)
        elif isinstance(outcome := attempt(self._streaming.submit, prompt), Raised):
            self._refused.append((prompt.slot, outcome))
        else:
            self._streamed.add(prompt.slot)

    def poll(self, who: Callable[[], str], strict: bool) -> list[tuple[int, ModelReply]]:
        """The next answers, by slot.

        Raises RunStopped where a streaming backend is dead; with `strict` what it raises."""
        refused, self._refused = self._refused, []
        if refused:
            return refused
        if self._streaming is None:
            return self._generate(self._lock_step, who)
        outcome = self._within(2 * self._deadline, who, self._streaming.poll)  # each prompt has a deadline there, too
        if isinstance(outcome, Raised | Lost):
            return self._give_up(outcome, who, strict)
        self._silent = False
        self._streamed -= {slot for slot, _ in outcome}
        return list(outcome)

    def _give_up(self, broken: Raised | Lost, who: Callable[[], str], strict: bool) -> list[tuple[int, ModelReply]]:
        """What a streaming backend has under way fails, unless it is dead."""
        error = broken.error if isinstance(broken, Raised) else None
        if strict and error is not None:
            raise error
        reason = broken.reason if isinstance(broken, Lost) else f"{type(error).__name__}: {error}"
        if self._silent:
            raise RunStopped(
                f"The streaming backend is dead: {reason}, twice without an answer in between; waited for: {who()}. "
                "Start it anew, and go on from the newest checkpoint."
            ) from error
        slots, self._silent = sorted(self._streamed), True
        self.cancel(who)
        return [(slot, broken) for slot in slots]

    def cancel(self, who: Callable[[], str]) -> None:
        """Gives up what a streaming backend has under way; one that cannot even do that is found out when asked."""
        if self._streaming is not None and self._streamed:
            self._streamed.clear()
            self._within(self._deadline, who, self._streaming.cancel)

    def _within(self, deadline: float, who: Callable[[], str], function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function gives, raises, or does not give in time."""
        try:
            return self._watch.call(attempt, function, *arguments, deadline=deadline, who=who)
        except Late as late:
            return Lost(HANG, str(late), told(late))

    def _generate(self, generator: Generator, who: Callable[[], str]) -> list[tuple[int, ModelReply]]:
        prompts, self._waiting = self._waiting, []
        outcome = self._within(self._deadline, who, _answers, generator, prompts)
        if isinstance(outcome, Raised) and self._collective:
            raise outcome.error
        if isinstance(outcome, Raised | Lost):
            return [(prompt.slot, outcome) for prompt in prompts]
        return list(outcome)


def _answers(generator: Generator, prompts: Sequence[Prompt]) -> list[tuple[int, Completion]]:
    return [(prompt.slot, reply) for prompt, reply in zip(prompts, generator.generate(prompts), strict=True)]


@dataclass
class RolloutClock:
    """Where a rollout's time went, in seconds."""

    generate: float = 0.0
    total: float = 0.0
    calls: int = 0
    """Replies asked for."""

    @property
    def environment(self) -> float:
        """Everything outside the generator."""
        return self.total - self.generate


class _Rollout:
    """The state of one `collect` call."""

    def __init__(
        self,
        slots: int,
        specs: Sequence[RolloutSpec],
        retries: int,
        reply_limit: int,
        on_finished: Callable[[int, Trajectory], None] | None,
    ) -> None:
        self._on_finished = on_finished
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
            self.done[index] = trajectory = run.trajectory()
            if self._on_finished is not None:
                self._on_finished(index, trajectory)
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

    def play(self, stage: Stage, watch: Watch, deadline: float, strict: bool) -> list[Run]:
        """Plays all calls of the environments, and those of the runs that follow; returns the runs that ask."""
        asking: list[Run] = []
        while self.runs:
            outcomes = stage.play([run.move() for run in self.runs], watch, deadline)
            following: list[Run] = []
            for run, outcome in zip(self.runs, outcomes, strict=True):
                run.hear(outcome)
                if not run.over:
                    asking.append(run)
                    continue
                if strict and run.misused is not None:
                    run.misused.add_note(run.failures[-1].traceback)  # of a worker, which the error itself has lost
                    raise run.misused
                following += self.finish(run)
            self.runs = following
        return asking

    def who(self) -> str:
        """What waits for the model, in words."""
        if not self.live:
            return "the model, which other ranks ask"
        first = min(self.live)
        return f"the model, for {len(self.live)} meta-episodes; the first: {self.live[first][1].who()}"


def _tell_slow(who: str, seconds: float) -> None:
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, who)


def collect(
    envs: Sequence[gym.Env[Any, Any]] | WorkerEnvs,
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
    slow_after: float = SLOW,
) -> list[Trajectory]:
    """Plays every spec once and returns the trajectories in the order of `specs`.

    Meta-episodes advance together, one environment each; as one ends, the next spec starts in its environment.
    A reply's fate depends on its own spec alone, never on which others share the batch.

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
    out each as soon as it is final.
    """
    started = time.perf_counter()
    clock = clock if clock is not None else RolloutClock()
    stage: Stage = envs if isinstance(envs, WorkerEnvs) else Here(envs, make_env)
    if not len(stage) and specs:
        raise ValueError("collect() needs at least one environment.")
    rollout = _Rollout(len(stage), specs, retries, reply_limit, on_finished)
    strict = not begun
    with Watch(_tell_slow, slow_after) as watch:
        model = _Model(generator, watch, model_timeout, collective=any_rank_live is not bool)
        try:
            while True:
                for run in rollout.play(stage, watch, env_timeout, strict):
                    model.submit(run.prompt)
                if on_step is not None and clock.calls:
                    on_step(sum(t is not None for t in rollout.done), len(specs))
                if not any_rank_live(bool(rollout.live)):
                    break
                asked = time.perf_counter()
                answers = model.poll(rollout.who, strict)
                clock.generate += time.perf_counter() - asked
                clock.calls += len(answers)
                rollout.take(answers, strict)
                strict = False
        finally:  # nothing goes on behind the caller's back after Ctrl-C, a preemption or an error
            model.cancel(rollout.who)
    clock.total += time.perf_counter() - started
    finished = [trajectory for trajectory in rollout.done if trajectory is not None]
    if len(finished) != len(specs):
        raise RuntimeError(f"collect() lost {len(specs) - len(finished)} of {len(specs)} meta-episodes.")
    return finished
