"""What a learner carries from episode to episode: what a strategy is, and the four modes of the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mage_envs.core import Turn
from mage_envs.text.parser import REMARK_LIMIT
from mage_envs.text.prompts import BLOCK, EpisodeRecord, PromptStyle, ReflectView, TurnRecord

REMARK = "remark"
"""The tag that stands for the style's own `remark_tag`."""


@dataclass(frozen=True)
class Request:
    """A call of the model that a strategy asks for."""

    kind: str
    """What it is for, in a word: `reflect`, `plan`, `note`. It names the call in `info["kind"]`."""
    text: str
    """The whole prompt; in a conversation, the next message."""
    tag: str | None = REMARK
    """Tag around the answer in the reply; `remark` is the style's own, None takes the whole reply."""
    limit: int | None = REMARK_LIMIT
    """Characters of the answer that are kept; None: all."""


@dataclass(frozen=True)
class Answer:
    """What the model said to a request."""

    text: str
    """What the tag holds; without one the whole reply after the reasoning. At most the request's `limit`."""
    tagged: bool
    """Whether `text` stood in the tag, or none was asked for and there is a text."""
    reason: str | None = None
    """Why it is no valid answer: `invalid` (no tag, or nothing said), `length` (cut at the token limit), `overflow`
    (the request was longer than the model's limit, nothing was said), or why a server sent no text (`refusal`,
    `tool_calls`, `empty`); None for a valid one."""


class MemoryView(NamedTuple):
    """What a strategy's hooks get to see: what the learner itself has seen and said, and how to word things."""

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
    episode: int = 0
    """The episode that was dealt last: the one to come in `before_episode`, the one that is over in `after_episode`."""
    first_observation: str = ""
    """What that episode begins with."""
    turn: Turn | None = None
    """What the learner is asked next; None outside of play."""
    turns: Sequence[TurnRecord] = ()
    """The answers in that episode so far."""
    category: str | None = None
    """Class of the task (number of boxes, task type), in games that have some."""

    def shown(self, record: EpisodeRecord) -> Sequence[TurnRecord]:
        """The newest turns of `record` that the window holds, cut from the turns really played."""
        return record.turns[-self.window :]

    def reflect_prompt(self) -> str:
        """The style's request to reflect on the last episode."""
        record = self.records[-1]
        view = ReflectView(
            rules=self.rules, num_episodes=self.num_episodes, record=record, shown=self.shown(record), alone=self.alone
        )
        return self.style.continue_reflect(view) if self.continuing else self.style.reflect(view)


Asked = Request | str | None
"""What a hook returns: nothing, or a request; a text is short for `Request("reflect", text)`."""


@runtime_checkable
class MemoryStrategy(Protocol):
    """Hooks around the episodes. One that returns a request has the model asked, in a call of its own.

    A strategy that asks needs `on_answer` (`TakesAnswers`) or `on_reflection` (`TakesReflections`). The other protocols
    below are optional too: each is found by its methods.
    """

    carries_transcript: bool
    """Whether, in the context `conversation`, the chat goes on across episodes."""

    def begin(self) -> None:
        """Forgets everything; called at the start of a meta-episode."""

    def before_episode(self, episode: int, view: MemoryView) -> Asked:
        """Called before each episode, 0 included, when it has been dealt."""
        ...

    @property
    def after_episode(self) -> Callable[..., Asked]:
        """`after_episode(view, last)` is called after each episode, `last` telling whether another follows;
        `after_episode(view)`, without that argument, after each but the last."""
        ...

    def render(self, view: MemoryView) -> str:
        """The memory section of a play prompt; empty shows none."""
        ...

    def shorten(self) -> bool:
        """Drops the oldest item it renders; False when nothing is left to drop."""
        ...


@runtime_checkable
class TakesAnswers(Protocol):
    """A strategy that is told of every answer."""

    def on_answer(self, request: Request, answer: Answer, view: MemoryView) -> Asked:
        """Called with each answer, also where it is invalid, cut or empty; may ask on."""
        ...


@runtime_checkable
class TakesReflections(Protocol):
    """A strategy that is told of valid answers alone; `on_answer`, where there is one, is called in its place."""

    def on_reflection(self, text: str, view: MemoryView) -> None:
        """Takes a valid reflection."""


@runtime_checkable
class WatchesTurns(Protocol):
    """A strategy with hooks inside the episodes."""

    def before_turn(self, view: MemoryView) -> Asked:
        """Called before each play prompt of a new turn."""
        ...

    def after_turn(self, view: MemoryView) -> Asked:
        """Called after each turn, `view.turns[-1]`."""
        ...


@runtime_checkable
class TellsEvents(Protocol):
    """A strategy that says what should be recorded: what it retrieved, what it could not read, what it forgot."""

    def events(self) -> Sequence[Mapping[str, Any]]:
        """What happened since this was asked last, as JSON objects with a key `event`."""
        ...


@runtime_checkable
class ShowsThoughts(Protocol):
    """A strategy under which the learner's thoughts stay in sight for the episode."""

    instruction: str
    """How to come to an answer, as a play prompt says it."""
    max_thoughts: int
    """Most replies in a row that may be a thought without an action and spend no turn."""

    def thoughts(self, turns: Sequence[TurnRecord]) -> Sequence[str]:
        """What a play prompt shows of each turn's thought; empty where it shows none."""
        ...


@runtime_checkable
class HasHeading(Protocol):
    """A strategy whose text has a heading of its own in play prompts."""

    heading: str


@runtime_checkable
class NeedsFreshPrompts(Protocol):
    """A strategy that does not go with the context `conversation`."""

    no_conversation: str
    """The reason, as half a sentence after `because`."""


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
        items = self._items(view)
        self._held = len(items)
        return BLOCK.join(items[self._dropped :])

    def shorten(self) -> bool:
        if self._dropped >= self._held:
            return False
        self._dropped += 1
        return True
