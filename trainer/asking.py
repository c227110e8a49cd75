"""Asking a model, of either kind of backend, within a deadline: whoever waits for it is told, and can give up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mage_envs.exceptions import reason_of
from mage_envs.processes import Late, Lost, Raised, Watch, attempt
from mage_envs.processes.outcomes import HANG, told
from mage_envs.text.generation import Completion, Generator, Prompt
from trainer.generation import StreamingGenerator
from trainer.metrics import RunStopped

LOGGER = logging.getLogger(__name__)
ModelReply = Completion | Raised | Lost
"""What a call of the model gave."""
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


class ModelCalls:
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
        reason = broken.reason if isinstance(broken, Lost) else reason_of(broken.error)
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


def answers_within(
    generator: Generator | StreamingGenerator, prompts: Sequence[Prompt], deadline: float, who: str
) -> list[Completion]:
    """The answers to a whole batch, in order, whatever slots its prompts have.

    Raises what the generator raises, and RunStopped where a call, or an answer of a streaming one, takes longer than
    `deadline` seconds (0: never). `who` says in words what is waited for.
    """
    found: dict[int, Completion] = {}
    with Watch(tell_slow) as watch:
        model = ModelCalls(generator, watch, deadline, collective=False, clock=RolloutClock())
        for row, prompt in enumerate(prompts):
            model.submit(prompt._replace(slot=row))
        try:
            while len(found) < len(prompts):
                for row, answer in model.poll(lambda: who, True, None):
                    if isinstance(answer, Raised):
                        raise answer.error
                    if isinstance(answer, Lost):
                        raise RunStopped(f"Waited for {who}: {answer.reason}.")
                    found[row] = answer
        finally:
            model.cancel(lambda: who)
    return [found[row] for row in range(len(prompts))]


def tell_slow(who: str, seconds: float) -> None:
    """Logs what is waited for."""
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, who)
