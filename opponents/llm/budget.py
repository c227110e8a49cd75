"""Limits on calls and tokens of language models, with the counts so far."""

from __future__ import annotations

from threading import Lock

from mage_envs.opponents.llm.failures import BUDGET, CallFailed


class Budget:
    """A limit of `max_calls` calls and `max_tokens` tokens (prompts and answers together); None means no limit.

    Several endpoints and threads of a process may share one budget. Every attempt counts as a call, and an answer from
    the cache does not. The tokens of a call are known only at its end, so running calls may exceed `max_tokens`.
    """

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None) -> None:
        for name, value in (("max_calls", max_calls), ("max_tokens", max_tokens)):
            if value is not None and value < 0:
                raise ValueError(f"Budget: {name} must be 0 or more, got {value}.")
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        # The check and the increment must be one step, because several threads spend from one budget.
        self._lock = Lock()

    @property
    def tokens(self) -> int:
        """Tokens spent so far, of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    def take_call(self) -> None:
        """Count one call; raise CallFailed if the budget is spent."""
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise CallFailed(BUDGET, f"all {self.max_calls} calls are spent")
            if self.max_tokens is not None and self.tokens >= self.max_tokens:
                raise CallFailed(BUDGET, f"{self.tokens} of {self.max_tokens} tokens are spent")
            self.calls += 1

    def add_tokens(self, prompt: int, completion: int) -> None:
        """Add the tokens of one call."""
        with self._lock:
            self.prompt_tokens += prompt
            self.completion_tokens += completion
