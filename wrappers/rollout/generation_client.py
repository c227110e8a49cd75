"""Calls of a model, by a lock-step or a streaming backend, with a timeout and a warning if they are slow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mage_envs.exceptions import reason_of
from mage_envs.processes.call_outcomes import HANG, CallError, WorkerLost, attempt, format_traceback
from mage_envs.processes.watchdog import CallTimeout, Watchdog
from mage_envs.text.generation import Completion, Generator, Prompt, StreamingGenerator

LOGGER = logging.getLogger(__name__)
ModelReply = Completion | CallError | WorkerLost
"""Result of a model call: the reply, the error that it raised, or a timeout."""
POLL_INTERVAL_S = 1.0
"""Seconds that one wait for a streaming backend, or for the environments beside it, takes at most."""


class RunStopped(RuntimeError):
    """The run cannot usefully continue. The message states the cause, its beginning and a remedy."""


@dataclass
class RolloutClock:
    """Durations of a rollout in seconds."""

    generate: float = 0.0
    """Time in which the generator had prompts to answer, even if environments played at the same time."""
    total: float = 0.0
    """Wall-clock time."""
    calls: int = 0
    """Replies received so far."""
    now: Callable[[], float] = time.perf_counter


class GenerationClient:
    """Calls of one generator of either kind, with a timeout. An exception becomes the answer to the call's prompts.

    All prompts of a lock-step generator form one call. If the call is collective over ranks, exceptions are raised and
    nothing times out, because the other ranks could not notice the failure. If a streaming generator raises or times
    out, all its open prompts fail together. If that happens again before it answers anything, it counts as dead.

    Args:
        generator: Lock-step or streaming generator.
        watch: Watchdog that interrupts late calls and reports slow ones.
        deadline: Timeout of a call in seconds; 0 disables it.
        collective: True if all ranks must take part in every call.
        clock: Clock that the durations are added to.
    """

    def __init__(
        self,
        generator: Generator | StreamingGenerator,
        watch: Watchdog,
        deadline: float,
        collective: bool,
        clock: RolloutClock,
    ) -> None:
        # Checked once, because isinstance of a runtime protocol takes longer than a move in Kuhn Poker.
        streams = isinstance(generator, StreamingGenerator)
        self._streaming = cast(StreamingGenerator, generator) if streams else None
        self._lock_step = cast(Generator, generator)
        self.streams = streams
        """True if the generator answers while environments play."""
        self._watch, self._clock = watch, clock
        self._since: float | None = None
        """Start of the generation time that is not on the clock yet; None if nothing is under way."""
        # Interrupting one rank in a collective call would leave the others waiting for it.
        self._deadline = 0.0 if collective else deadline
        self._collective = collective
        self._waiting: list[Prompt] = []
        self._refused: list[tuple[int, ModelReply]] = []
        self._streamed: set[int] = set()
        """Slots of the prompts that a streaming backend has under way."""
        self._silent = False
        """True if a streaming backend failed, and has answered nothing since."""

    def submit(self, prompt: Prompt) -> None:
        """Send a prompt to a streaming backend, or queue it for the next lock-step call."""
        if self._streaming is None:
            self._waiting.append(prompt)
            return
        if self._since is None:
            self._since = self._clock.now()
        # An exception here concerns this prompt alone. `poll` returns it, as it returns all other answers.
        if isinstance(outcome := attempt(self._streaming.submit, prompt), CallError):
            self._refused.append((prompt.slot, outcome))
        else:
            self._streamed.add(prompt.slot)

    @property
    def busy(self) -> bool:
        """Return True if a streaming backend has prompts under way, or `poll` has answers ready."""
        return bool(self._streamed or self._refused)

    def poll(self, describe: Callable[[], str], strict: bool, timeout: float | None) -> list[tuple[int, ModelReply]]:
        """Return the next answers; a streaming backend may return none within the timeout.

        Args:
            describe: Function that returns a description of the call for warnings and errors.
            strict: True to raise the exception of a streaming backend instead of failing its prompts.
            timeout: Seconds to wait for a streaming backend; None waits for at least one answer.

        Returns:
            Pairs of slot and answer.

        Raises:
            RunStopped: If the streaming backend is dead.
        """
        clock, start_time = self._clock, self._since
        if start_time is None:
            start_time = clock.now()
        answers = self._answers(describe, strict, timeout)
        end_time = clock.now()
        clock.generate += end_time - start_time
        clock.calls += len(answers)
        self._since = end_time if self.busy else None
        return answers

    def _answers(
        self, describe: Callable[[], str], strict: bool, timeout: float | None
    ) -> list[tuple[int, ModelReply]]:
        # Rejected prompts have their answer already, so their meta-episodes need not wait for the others.
        refused, self._refused = self._refused, []
        if refused:
            return refused
        if self._streaming is None:
            return self._generate(self._lock_step, describe)
        # Twice the limit: the backend's own timeout, which fails a single request, should expire first.
        outcome = self._within(2 * self._deadline, describe, self._listen, self._streaming, timeout)
        if isinstance(outcome, CallError | WorkerLost):
            return self._give_up(outcome, describe, strict)
        self._silent = self._silent and not outcome
        self._streamed -= {slot for slot, _ in outcome}
        return list(outcome)

    def _listen(self, backend: StreamingGenerator, timeout: float | None) -> list[tuple[int, Completion]]:
        """Return the next answers of a streaming backend. Raise Late if there are none in time."""
        # `Watchdog` interrupts the main thread only. Short polls enforce the limit in a thread that plays ahead, too.
        until = time.monotonic() + (2 * self._deadline or float("inf"))
        while True:
            answers = backend.poll(POLL_INTERVAL_S if timeout is None else timeout)
            if answers or timeout is not None or not self._streamed:
                return answers
            if time.monotonic() > until:
                raise CallTimeout(f"no answer within {2 * self._deadline:g} s")

    def _give_up(
        self, broken: CallError | WorkerLost, describe: Callable[[], str], strict: bool
    ) -> list[tuple[int, ModelReply]]:
        """Fail all open prompts of a streaming backend. Raise RunStopped if it failed twice without an answer."""
        error = broken.error if isinstance(broken, CallError) else None
        if strict and error is not None:
            raise error
        reason = broken.reason if isinstance(broken, WorkerLost) else reason_of(broken.error)
        if self._silent:
            raise RunStopped(
                f"The streaming backend is dead: {reason}, twice without an answer in between; waited for: "
                f"{describe()}. Restart it, and resume from the newest checkpoint."
            ) from error
        slots, self._silent = sorted(self._streamed), True
        self.cancel(describe)
        return [(slot, broken) for slot in slots]

    def cancel(self, describe: Callable[[], str]) -> None:
        """Cancel the open prompts of a streaming backend."""
        # The outcome is ignored: if the backend cannot cancel either, its next call fails and reports that.
        if self._streaming is not None and self._streamed:
            self._streamed.clear()
            self._within(self._deadline, describe, self._streaming.cancel)

    def _within(
        self, deadline: float, describe: Callable[[], str], function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Return the function's result, `CallError` if it raises, or `WorkerLost` if it times out."""
        try:
            return self._watch.call(attempt, function, *arguments, deadline=deadline, describe=describe)
        except CallTimeout as late:
            return WorkerLost(HANG, str(late), format_traceback(late))

    def _generate(self, generator: Generator, describe: Callable[[], str]) -> list[tuple[int, ModelReply]]:
        """Answer all queued prompts in one lock-step call."""
        prompts, self._waiting = self._waiting, []
        outcome = self._within(self._deadline, describe, _answers, generator, prompts)
        # The other ranks cannot know about the failure and would wait for this rank, so it ends the run.
        if isinstance(outcome, CallError) and self._collective:
            raise outcome.error
        if isinstance(outcome, CallError | WorkerLost):
            return [(prompt.slot, outcome) for prompt in prompts]
        return list(outcome)


def _answers(generator: Generator, prompts: Sequence[Prompt]) -> list[tuple[int, Completion]]:
    return [(prompt.slot, reply) for prompt, reply in zip(prompts, generator.generate(prompts), strict=True)]


def generate_with_timeout(
    generator: Generator | StreamingGenerator, prompts: Sequence[Prompt], deadline: float, description: str
) -> list[Completion]:
    """Answer a whole batch, in order. An exception of the generator is raised.

    Args:
        generator: Lock-step or streaming generator.
        prompts: Prompts of any slots.
        deadline: Timeout in seconds of a lock-step call, or of one answer of a streaming backend; 0 disables it.
        description: Description of the call for warnings and errors.

    Returns:
        One completion per prompt.

    Raises:
        RunStopped: If a call or an answer times out.
    """
    answers: dict[int, Completion] = {}
    with Watchdog(warn_slow) as watch:
        model = GenerationClient(generator, watch, deadline, collective=False, clock=RolloutClock())
        # Slots must be distinct within a call, and the prompts of a batch may share one.
        for row, prompt in enumerate(prompts):
            model.submit(prompt._replace(slot=row))
        try:
            while len(answers) < len(prompts):
                for row, answer in model.poll(lambda: description, True, None):
                    if isinstance(answer, CallError):
                        raise answer.error
                    if isinstance(answer, WorkerLost):
                        raise RunStopped(f"Waited for {description}: {answer.reason}.")
                    answers[row] = answer
        finally:
            model.cancel(lambda: description)
    return [answers[row] for row in range(len(prompts))]


def warn_slow(description: str, seconds: float) -> None:
    """Log a warning with the duration and the description of a slow call."""
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, description)
