"""Limits on model calls, tokens and time, enforced between the rollout loop and an agent's generator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mage_envs.exceptions import reason_of
from mage_envs.text.generation import Completion, Generator, Prompt, StreamingGenerator

KINDS = ("calls", "tokens", "minutes")
FORM = "calls=N,tokens=N,minutes=M"
SPENT = "budget"
"""Kind of the failure of meta-episodes that exceeded the budget. They count as not played."""


MIN_REPLIES_TO_REFUSE = 16
"""Maximum number of concurrent meta-episodes if tokens are limited, because the tokens of a call are unknown
beforehand."""


def read_budget(text: str) -> dict[str, float]:
    """Return the limits of `calls=100,minutes=5`, as keyword arguments of `Limits`. Raises ValueError."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in KINDS or f"max_{name}" in limits:
            raise ValueError(f"--budget {text} must have the form {FORM}, each at most once.")
        try:
            limits[f"max_{name}"] = float(value)
        except ValueError:
            raise ValueError(f"--budget {name} must be a number, got {value!r}.") from None
    Limits(**limits)
    return limits


@dataclass
class Limits:
    """Budget of an evaluation and its use so far. None means no limit.

    Calls that are running when the budget is exhausted still finish.
    """

    max_calls: float | None = None
    max_tokens: float | None = None
    """Tokens of prompts and replies together, as the backend counts them."""
    max_minutes: float | None = None
    calls: int = field(default=0, init=False)
    tokens: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name in KINDS:
            value = vars(self)[f"max_{name}"]
            if value is not None and not value > 0:
                raise ValueError(f"--budget {name} must be more than 0, got {value:g}.")
        self._started = time.monotonic()

    def spent(self) -> str | None:
        """Return a description of the exhausted limit, or None if the budget is not exhausted."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            return f"all {self.max_calls:g} calls are spent"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"{self.tokens} of {self.max_tokens:g} tokens are spent"
        minutes = (time.monotonic() - self._started) / 60
        if self.max_minutes is not None and minutes >= self.max_minutes:
            return f"{self.max_minutes:g} minutes are over"
        return None

    def slots(self, batch: int, most_calls: int) -> int:
        """Return the number of meta-episodes to play concurrently.

        It is reduced under a limit so that the budget finishes some meta-episodes instead of only starting all of them.

        Args:
            batch: Requested number of concurrent meta-episodes.
            most_calls: Maximum number of calls of one meta-episode.
        """
        if self.max_calls is not None:
            # The factor 2 limits the first batch to half of the calls, so that it can finish.
            batch = min(batch, max(int(self.max_calls // (2 * most_calls)), 1))
        return batch if self.max_tokens is None else min(batch, MIN_REPLIES_TO_REFUSE)

    def refuse(self) -> Completion | None:
        """Count one call and return None, or return a failure if the budget is exhausted."""
        reason = self.spent()
        if reason is not None:
            return Completion("", error=f"{SPENT}: {reason}")
        self.calls += 1
        return None

    def count(self, completion: Completion) -> Completion:
        """Count the tokens of a completion and return it."""
        # Endpoints report their own counts; local models return the token ids.
        used = completion.tokens or (len(completion.prompt_ids), len(completion.ids))
        self.tokens += sum(used)
        return completion


class _Batches:
    """A generator within limits that answers a whole batch at once."""

    def __init__(self, generator: Generator, limits: Limits) -> None:
        self._generator, self._limits = generator, limits

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        refused = [self._limits.refuse() for _ in prompts]
        sent = [prompt for prompt, no in zip(prompts, refused, strict=True) if no is None]
        answers = iter(self._generator.generate(sent) if sent else ())
        return [self._limits.count(next(answers)) if no is None else no for no in refused]


class _Stream:
    """A generator within limits that answers each prompt by itself.

    The first prompt is sent alone. If it fails, `poll` raises RuntimeError. This avoids the cost of further calls if
    the endpoint is down or rejects the key.
    """

    def __init__(self, generator: StreamingGenerator, limits: Limits) -> None:
        self._generator, self._limits = generator, limits
        self._running: set[int] = set()
        self._ready: list[tuple[int, Completion]] = []
        self._held: list[Prompt] = []
        self._first: int | None = None
        """Slot of the first prompt, once it was submitted."""
        self._answers = False

    def submit(self, prompt: Prompt) -> None:
        if not self._answers:
            if self._first is not None:
                self._held.append(prompt)
                return
            self._first = prompt.slot
        self._send(prompt)

    def _send(self, prompt: Prompt) -> None:
        refused = self._limits.refuse()
        if refused is None:
            try:
                self._generator.submit(prompt)
                self._running.add(prompt.slot)
                return
            # `collect` turns errors of `submit` into failures, but it does not see those of prompts held here.
            except Exception as error:
                refused = Completion("", error=reason_of(error))
        self._ready.append((prompt.slot, refused))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        ready, self._ready = self._ready, []
        if not ready and self._running:
            ready = self._wait(timeout)
        if ready and not self._answers:
            [(_, completion)] = ready
            # An exhausted budget says nothing about the endpoint, so it is not an error of the first call.
            if completion.error is not None and not completion.error.startswith(SPENT):
                raise RuntimeError(f"The first call failed, so no further calls were made: {completion.error}")
            self._answers = True
            for prompt in self._held:
                self._send(prompt)
            self._held = []
        return ready

    def cancel(self) -> None:
        self._held, self._ready, self._running, self._first = [], [], set(), None
        self._generator.cancel()

    def _wait(self, timeout: float | None) -> list[tuple[int, Completion]]:
        """Return the answers that are ready within `timeout` seconds, with their tokens counted."""
        answers = self._generator.poll(timeout)
        self._running -= {slot for slot, _ in answers}
        return [(slot, self._limits.count(completion)) for slot, completion in answers]


def limit_calls(
    generator: Generator | StreamingGenerator, limits: Limits | None = None
) -> Generator | StreamingGenerator:
    """Return the generator within `limits`. One that streams receives a single prompt until its first answer."""
    limits = limits or Limits()
    return _Stream(generator, limits) if isinstance(generator, StreamingGenerator) else _Batches(generator, limits)
