"""What a learner carries from episode to episode: the injected strategy, and the four modes of the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mage_envs.imports import load_named
from mage_envs.text.prompts import EpisodeRecord, PromptStyle, ReflectView, TurnRecord


class MemoryView(NamedTuple):
    """What a strategy's hooks get to see: the finished episodes, and how to word things."""

    rules: str
    num_episodes: int
    records: Sequence[EpisodeRecord]
    """All finished episodes of the meta-episode, oldest first."""
    style: PromptStyle
    continuing: bool
    """Whether the chat already shows the last episode, so that a request need not repeat it."""
    window: int
    """Most turns of an episode that a prompt shows."""
    alone: bool = False
    """Whether the game has one player."""

    def shown(self, record: EpisodeRecord) -> Sequence[TurnRecord]:
        """The newest turns of `record` that the window holds, cut from the turns really played."""
        return record.turns[-self.window :]

    def reflect_prompt(self) -> str:
        """The style's request to reflect on the last episode."""
        record = self.records[-1]
        view = ReflectView(self.rules, self.num_episodes, record, self.shown(record), self.alone)
        return self.style.continue_reflect(view) if self.continuing else self.style.reflect(view)


class MemoryStrategy(Protocol):
    """Three hooks around the episodes. A hook that returns a text asks the model that text, in a call of its own.

    Replies to a hook's text are searched for the remark tag; `on_reflection` gets what it holds (at most 2,000
    characters) and is not called for a reply without one.
    """

    carries_transcript: bool
    """Whether, in the context `conversation`, the chat goes on across episodes."""

    def begin(self) -> None:
        """Forgets everything; called at the start of a meta-episode."""

    def before_episode(self, episode: int, view: MemoryView) -> str | None:
        """Called before each episode, 0 included."""
        ...

    def after_episode(self, view: MemoryView) -> str | None:
        """Called after each episode but the last."""
        ...

    def on_reflection(self, text: str, view: MemoryView) -> None:
        """Takes a valid reflection."""

    def render(self, view: MemoryView) -> str:
        """The memory section of a play prompt; empty shows none."""
        ...

    def shorten(self) -> bool:
        """Drops the oldest item it renders; False when nothing is left to drop."""
        ...


class EpisodicMemory:
    """The method's memory: reflections (all earlier ones), whole episodes, both, or nothing.

    With reflections, the model is asked before each episode but the first to reflect on the one before.
    """

    def __init__(self, reflections: bool, transcripts: bool) -> None:
        self.reflects = reflections
        self.carries_transcript = transcripts
        self._reflections: list[tuple[int, str]] = []
        self._dropped = 0
        self._held = 0

    def begin(self) -> None:
        self._reflections = []
        self._dropped = 0

    def before_episode(self, episode: int, view: MemoryView) -> str | None:
        return view.reflect_prompt() if self.reflects and episode > 0 else None

    def after_episode(self, view: MemoryView) -> str | None:
        return None

    def on_reflection(self, text: str, view: MemoryView) -> None:
        self._reflections.append((view.records[-1].index, text))

    def _items(self, view: MemoryView) -> list[str]:
        items: list[str] = []
        written = dict(self._reflections)
        for record in view.records:
            if self.carries_transcript and not view.continuing:
                items.append(view.style.remember_episode(record, view.shown(record)))
            if record.index in written and not (view.continuing and self.carries_transcript):
                items.append(view.style.remember_reflection(record.index, written[record.index]))
        return items

    def render(self, view: MemoryView) -> str:
        separator = "\n\n" if view.style.action_tag else " "
        items = self._items(view)
        self._held = len(items)
        return separator.join(items[self._dropped :])

    def shorten(self) -> bool:
        if self._dropped >= self._held:
            return False
        self._dropped += 1
        return True


MEMORIES: dict[str, Callable[[], MemoryStrategy]] = {
    "reflection": lambda: EpisodicMemory(reflections=True, transcripts=False),
    "history": lambda: EpisodicMemory(reflections=False, transcripts=True),
    "both": lambda: EpisodicMemory(reflections=True, transcripts=True),
    "none": lambda: EpisodicMemory(reflections=False, transcripts=False),
}
"""The memory modes by name."""


def as_memory(memory: str | MemoryStrategy) -> MemoryStrategy:
    """A memory mode by name, a user's own strategy, or `"module:Class"` of one."""
    if not isinstance(memory, str):
        return memory
    if ":" in memory:
        own: MemoryStrategy = load_named(memory)()
        return own
    if memory not in MEMORIES:
        raise ValueError(
            f"memory={memory!r} is unknown; choose one of: {', '.join(MEMORIES)}, or give a MemoryStrategy."
        )
    return MEMORIES[memory]()
