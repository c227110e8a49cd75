"""Text form of an episode for the baselines: the task in one line, observations and actions, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.text.prompts import TurnRecord, answer_text
from mage_envs.wrappers.memory import MemoryView

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
