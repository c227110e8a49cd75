"""What the baselines share: a memory's text made of whole items under a cap, and what is told of each answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.checks import check_positive
from wrappers.memory import Answer, Request

CHARACTERS_PER_TOKEN = 4
"""How long a token is taken to be, as no tokenizer is at hand here."""


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class Baseline:
    """Keeps the events of a strategy, and the items of its text that may be shown."""

    carries_transcript = False

    def __init__(self, max_tokens: int) -> None:
        """`max_tokens`: most of the memory's text in a play prompt, counted at four characters a token."""
        check_positive("max_tokens", max_tokens)
        self._max_tokens = max_tokens
        self._events: list[dict[str, Any]] = []
        self._dropped = self._shown = 0

    def begin(self) -> None:
        self._events = []
        self._dropped = self._shown = 0

    def events(self) -> Sequence[Mapping[str, Any]]:
        told, self._events = self._events, []
        return told

    def shorten(self) -> bool:
        if not self._shown:
            return False
        self._dropped += 1
        return True

    def _tell(self, event: str, **facts: Any) -> None:
        self._events.append({"event": event, **facts})

    def _tell_failure(self, request: Request, answer: Answer, otherwise: str = "") -> None:
        """Records an answer that could not be read as it was asked for; `otherwise`: why, where it was valid so far."""
        self._tell("parse_failure", kind=request.kind, reason=answer.reason or otherwise)

    def _kept(self, items: Sequence[str]) -> int:
        """How many of `items`, the most valued first, are shown: whole ones under the cap, less those dropped."""
        room, count = self._max_tokens, 0
        for item in items:
            room -= tokens(item)
            if room < 0:
                break
            count += 1
        self._shown = max(count - self._dropped, 0)
        if self._shown < len(items):
            self._tell("left_out", items=len(items) - self._shown)
        return self._shown
