"""How the baselines word an episode: the task in a line, what was seen and done, how it ended."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.text.prompts import EpisodeRecord, TurnRecord, answer_text, outcome_text
from wrappers.memory import MemoryView

TASK_LINE = 200
"""Most characters of it."""


def task_line(view: MemoryView) -> str:
    """The first sentence of the rules."""
    return view.rules.split(". ")[0].rstrip(".")[:TASK_LINE] + "."


def state(view: MemoryView, observation: str) -> str:
    """What a retrieval asks for: the task, and what is seen now."""
    return f"{task_line(view)}\n{observation}"


def trace(turns: Sequence[TurnRecord], most: int) -> str:
    """What was seen and answered, turn by turn; above `most` characters the turns in the middle are left out."""
    texts = [f"{number}. Seen: {r.observation}\nDone: {answer_text(r)}" for number, r in enumerate(turns, start=1)]
    first, last, length = 0, len(texts), 0
    while first < last:
        at = first if first <= len(texts) - last else last - 1
        length += len(texts[at]) + 1
        if length > most:
            break
        first, last = (first + 1, last) if at == first else (first, last - 1)
    left_out = [f"(turns left out here: {last - first})"] if last > first else []
    return "\n".join([*texts[:first], *left_out, *texts[last:]])


def episode_text(record: EpisodeRecord, task: str, most: int) -> str:
    """A finished episode: the task, how it began, its turns (`most` characters of them), how it ended."""
    return (
        f"Task: {task}\nIt began with: {record.first_observation}\n{trace(record.turns, most)}\n"
        f"It ended with: {record.outcome}\n{outcome_text(record)}"
    )


def score_text(record: EpisodeRecord) -> str:
    """Return the episode's return in the game's unit, or only its outcome if the learner is not shown the score."""
    return f"{record.value:+g} {record.unit}" if record.shows_score else record.ended_as


def tagged(name: str | None, about: str) -> str:
    """How to give an answer in a style's remark tag; for bare replies nothing needs to be said."""
    return "" if name is None else f" End your reply with {about} inside tags, like this: <{name}>{about}</{name}>"
