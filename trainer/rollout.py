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
from trainer.stages import Here, MakeEnv, Outcome, Stage
from trainer.trajectory import Failure, Trajectory

__all__ = ["RolloutClock", "RolloutSpec", "collect"]

LOGGER = logging.getLogger(__name__)
LISTEN = 1.0
"""Seconds after which whoever waits for a streaming backend, or for environments beside it, looks around."""


@dataclass
class RolloutClock:
    """Where a rollout's time went, in seconds."""

    generate: float = 0.0
    """While the generator had something to answer, whatever was done beside it."""
    total: float = 0.0
    calls: int = 0
    """Replies asked for."""
    now: Callable[[], float] = time.perf_counter

    @property
    def environment(self) -> float:
        """While the generator had nothing to do."""
        return self.total - self.generate


class _Model:
    """A generator of either kind, asked within a deadline; what a call raises becomes the answer to its prompts.

    All prompts of a lock-step generator are one call. In a call that is collective over ranks nothing is caught and
    nothing interrupted, as the other ranks could not know. All prompts that a streaming one has under way fail together
    when it hangs or breaks; when it does so again before it has answered anything, it is dead.
    """

    def __init__(
        self,
        generator: Generator | StreamingGenerator,
        watch: Watch,
        deadline: float,
        collective: bool,
        clock: RolloutClock,
    ) -> None:
        streams = isinstance(generator, StreamingGenerator)  # once: it takes longer than a move in Kuhn Poker
        self._streaming = cast(StreamingGenerator, generator) if streams else None
        self._lock_step = cast(Generator, generator)
        self.streams = streams
        """Whether it answers while environments play."""
        self._watch, self._clock = watch, clock
        self._since: float | None = None
        """Since when it has had something to do that is not on the clock yet."""
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
            return
        if self._since is None:
            self._since = self._clock.now()
        if isinstance(outcome := attempt(self._streaming.submit, prompt), Raised):
            self._refused.append((prompt.slot, outcome))
        else:
            self._streamed.add(prompt.slot)

    @property
    def busy(self) -> bool:
        """Whether a streaming backend has prompts under way, or answers for whoever asks."""
        return bool(self._streamed or self._refused)

    def poll(self, who: Callable[[], str], strict: bool, timeout: float | None) -> list[tuple[int, ModelReply]]:
        """The next answers, by slot; of a streaming backend those of the next `timeout` seconds, which may be none.

        Raises RunStopped where a streaming backend is dead; with `strict` what it raises.
        """
        clock, started = self._clock, self._since
        if started is None:
            started = clock.now()
        answers = self._answers(who, strict, timeout)
        now = clock.now()
        clock.generate += now - started
        clock.calls += len(answers)
        self._since = now if self.busy else None
        return answers

    def _answers(self, who: Callable[[], str], strict: bool, timeout: float | None) -> list[tuple[int, ModelReply]]:
        refused, self._refused = self._refused, []
        if refused:
            return refused
        if self._streaming is None:
            return self._generate(self._lock_step, who)
        outcome = self._within(2 * self._deadline, who, self._listen, self._streaming, timeout)
        if isinstance(outcome, Raised | Lost):
            return self._give_up(outcome, who, strict)
        self._silent = self._silent and not outcome
        self._streamed -= {slot for slot, _ in outcome}
        return list(outcome)

    def _listen(self, backend: StreamingGenerator, timeout: float | None) -> list[tuple[int, Completion]]:
        """What it answers, each prompt having a deadline there, too; one that passes is noticed in any thread."""
        until = time.monotonic() + (2 * self._deadline or float("inf"))
        while True:
            answers = backend.poll(LISTEN if timeout is None else timeout)
            if answers or timeout is not None or not self._streamed:
                return answers
            if time.monotonic() > until:
                raise Late(f"no answer within {2 * self._deadline:g} s")

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


def _tell_slow(who: str, seconds: float) -> None:
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, who)


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
    out each as soon as it is final.
    """
    clock = clock if clock is not None else RolloutClock()
    started = clock.now()
    stage = envs if isinstance(envs, Stage) else Here(envs, make_env)
    if not len(stage) and specs:
        raise ValueError("collect() needs at least one environment.")
    rollout = _Rollout(len(stage), specs, retries, reply_limit, on_finished)
    strict = not begun
    with Watch(_tell_slow, slow_after) as watch:
        model = _Model(generator, watch, model_timeout, collective=any_rank_live is not bool, clock=clock)
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
