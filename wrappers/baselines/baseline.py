"""Base class of the baselines: a memory text of whole items with a maximum length, and events about answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.loading.options import check_positive
from mage_envs.text.prompts import TurnRecord, answer_text
from mage_envs.wrappers.memory import Answer, Memory, MemoryView, Request

TASK_LINE = 200
"""Maximum number of characters of the task line."""


def task_line(view: MemoryView) -> str:
    """Return the first sentence of the rules."""
    return view.rules.split(". ")[0].rstrip(".")[:TASK_LINE] + "."


def state(view: MemoryView, observation: str) -> str:
    """Return the query of a retrieval: the task and the current observation."""
    return f"{task_line(view)}\n{observation}"


def trace(turns: Sequence[TurnRecord], max_characters: int) -> str:
    """Return observations and answers, turn by turn. Above `max_characters`, turns in the middle are omitted."""
    texts = [f"{number}. Seen: {r.observation}\nDone: {answer_text(r)}" for number, r in enumerate(turns, start=1)]
    start, end, length = 0, len(texts), 0
    while start < end:
        # Alternate between the start and the end, so that the omitted turns are those in the middle.
        at = start if start <= len(texts) - end else end - 1
        length += len(texts[at]) + 1
        if length > max_characters:
            break
        start, end = (start + 1, end) if at == start else (start, end - 1)
    left_out = [f"(turns left out here: {end - start})"] if end > start else []
    return "\n".join([*texts[:start], *left_out, *texts[end:]])


def episode_text(view: MemoryView, max_characters: int) -> str:
    """Return the last episode as text: the task, the first observation, at most `max_characters` of turns, the end."""
    record = view.records[-1]
    return (
        f"Task: {task_line(view)}\nIt began with: {record.first_observation}\n{trace(record.turns, max_characters)}\n"
        f"It ended with: {view.ended(record)}"
    )


def tag_instruction(name: str | None, about: str) -> str:
    """Return the instruction to write `about` inside the tag `name`, or an empty string if the style has no tag."""
    return "" if name is None else f" End your reply with {about} inside tags, like this: <{name}>{about}</{name}>"


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
