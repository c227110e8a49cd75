"""Base class of the baselines: a memory text of whole items with a maximum length, and events about answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.loading.options import check_positive
from mage_envs.wrappers.memory import Answer, Memory, Request

CHARACTERS_PER_TOKEN = 4
"""Assumed length of a token, because no tokenizer is available here."""


def tokens(text: str) -> int:
    """Return the approximate number of tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class Baseline(Memory):
    """Base class with the events of a strategy and the number of items that its text shows."""

    def __init__(self, max_tokens: int) -> None:
        """Set the maximum length of the memory's text in a play prompt, in tokens of four characters."""
        check_positive("max_tokens", max_tokens)
        self._max_tokens = max_tokens
        self._events: list[dict[str, Any]] = []
        self._dropped = self._shown = 0

    def begin(self) -> None:
        self._events = []
        self._dropped = self._shown = 0

    def events(self) -> Sequence[Mapping[str, Any]]:
        events, self._events = self._events, []
        return events

    def shorten(self) -> bool:
        if not self._shown:
            return False
        self._dropped += 1
        return True

    def _tell(self, event: str, **facts: Any) -> None:
        self._events.append({"event": event, **facts})

    def _tell_failure(self, request: Request, answer: Answer, otherwise: str = "") -> None:
        """Record an answer that could not be parsed. `otherwise` is the reason if the answer itself is valid."""
        self._tell("parse_failure", kind=request.kind, reason=answer.reason or otherwise)

    def _count_shown(self, items: Sequence[str]) -> int:
        """Return how many of `items`, best first, are shown: whole items within the limit, minus the dropped ones."""
        room, count = self._max_tokens, 0
        for item in items:
            room -= tokens(item)
            if room < 0:
                break
            count += 1
        # The dropped items are the last ones, so callers show the first `_shown` items.
        self._shown = max(count - self._dropped, 0)
        if self._shown < len(items):
            self._tell("left_out", items=len(items) - self._shown)
        return self._shown
