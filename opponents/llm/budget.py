"""What may be spent on calls to a model, and what was."""

from __future__ import annotations

from threading import Lock

from opponents.llm.failures import BUDGET, CallFailed


class Budget:
    """At most `max_calls` calls and `max_tokens` tokens (prompts and answers together), None for no limit.

    One budget may be shared by many endpoints and threads of a process. Every attempt is a call; an answer from the
    cache is none. Tokens are known when a call ends, so the calls under way at that moment may go past `max_tokens`.
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
        self._lock = Lock()

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def take_call(self) -> None:
        """Counts one call; raises CallFailed where there is nothing left to spend."""
        with self._lock:
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise CallFailed(BUDGET, f"all {self.max_calls} calls are spent")
            if self.max_tokens is not None and self.tokens >= self.max_tokens:
                raise CallFailed(BUDGET, f"{self.tokens} of {self.max_tokens} tokens are spent")
            self.calls += 1

    def add_tokens(self, prompt: int, completion: int) -> None:
        with self._lock:
            self.prompt_tokens += prompt
            self.completion_tokens += completion
