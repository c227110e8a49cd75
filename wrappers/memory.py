"""Memory of a learner across episodes: the base class with its hooks, and the four modes of the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mage_envs.core import Turn
from mage_envs.text.parser import REMARK_LIMIT
from mage_envs.text.prompts import BLOCK, EpisodeRecord, Frame, PromptStyle, ReflectView, TurnRecord

REMARK = "remark"
"""Placeholder for the style's own `remark_tag`."""
BELIEF, GUESS = "belief", "guess"
"""Kinds of the requests that ask for the opponent, and names of their events (`mage_envs.wrappers.belief_question`).

The answer to `belief` has the probability of each opponent, the answer to `guess` the name of one.
"""


@dataclass(frozen=True)
class Request:
    """Model call that a strategy requests."""

    kind: str
    """Purpose in one word, such as `reflect`, `plan` or `note`. `info["kind"]` contains it."""
    text: str
    """Whole prompt, or the next message of a conversation."""
    tag: str | None = REMARK
    """Tag around the answer in the reply. `remark` is the style's own tag. If None, the whole reply is the answer."""
    limit: int | None = REMARK_LIMIT
    """Maximum number of characters of the answer. If None, all are kept."""


@dataclass(frozen=True)
class Answer:
    """Answer of the model to a request."""

    text: str
    """Content of the tag, or the whole reply after the reasoning if there is no tag. Cut at the request's `limit`."""
    tagged: bool
    """True if `text` is the content of the tag, or if the request has no tag and the text is not empty."""
    reason: str | None = None
    """Reason why the answer is invalid, or None if it is valid.

    * `invalid`: no tag, or no text;
    * `length`: cut at the token limit;
    * `overflow`: the request was longer than the model's limit, so the model wrote nothing;
    * `refusal`, `tool_calls`, `empty`: the server sent no text.
    """


class MemoryView(NamedTuple):
    """Input of a strategy's hooks: the learner's own observations and answers, and the prompt style."""

    frame: Frame
    """Constants of the meta-episode."""
    records: Sequence[EpisodeRecord]
    """Finished episodes of the meta-episode, oldest first."""
    style: PromptStyle
    continuing: bool
    """True if the chat already shows the last episode. A request then need not repeat it."""
    window: int
    """Maximum number of turns of an episode in a prompt."""
    episode: int = 0
    """Index of the current episode: the next one in `before_episode`, the ended one in `after_episode`."""
    first_observation: str = ""
    """First observation of that episode."""
    turn: Turn | None = None
    """The learner's next decision, or None before and after an episode."""
    turns: Sequence[TurnRecord] = ()
    """Turns of that episode so far."""
    category: str | None = None
    """Class of the task (number of boxes, task type), or None if the game has no classes."""

    @property
    def rules(self) -> str:
        """Return the rules of the game."""
        return self.frame.spec.rules

    @property
    def num_episodes(self) -> int:
        """Return the number of episodes of the meta-episode."""
        return self.frame.num_episodes

    @property
    def states_setting(self) -> bool:
        """Return True if the style states more than the rules, so that every request needs it."""
        return self.style.states_setting

    def setting(self) -> str:
        """Return the rules, and if the style states them also what repeats, what is new, and the limits."""
        return self.style.setting(self.frame)

    def ended(self, record: EpisodeRecord) -> str:
        """Return the last state of an episode and how it ended, in the same words for every memory."""
        return self.style.ended(record)

    def shown(self, record: EpisodeRecord) -> Sequence[TurnRecord]:
        """Return the newest turns of `record`, at most `window`."""
        return record.turns[-self.window :]

    def reflect_prompt(self) -> str:
        """Return the style's request to reflect on the last episode."""
        record = self.records[-1]
        view = ReflectView(frame=self.frame, record=record, shown=self.shown(record))
        return self.style.continue_reflect(view) if self.continuing else self.style.reflect(view)


HookResult = Request | str | None
"""Return value of a hook: `None`, a `Request`, or a string (shorthand for `Request("reflect", text)`)."""


class Memory:
    """Base class of a memory: hooks that do nothing. A memory overrides those that it needs.

    A class without this base is a memory, too, if it has `begin` and `render`: `as_memory` adds the other hooks.
    """

    carries_transcript: bool = False
    """True if the chat continues across episodes in the context `conversation`."""
    heading: str = ""
    """Heading above the memory's text in play prompts. If empty, the style's own."""
    no_conversation: str = ""
    """Reason why the context `conversation` is not supported, as a clause that follows `because`; empty if it is."""
    instruction: str = ""
    """Instruction in play prompts on how to find an answer."""
    max_thoughts: int = 0
    """Maximum number of replies in a row that contain only a thought and use no turn."""

    def begin(self) -> None:
        """Clear the memory at the start of a meta-episode."""

    def before_episode(self, episode: int, view: MemoryView) -> HookResult:
        """Return a request or None. Called after the deal of each episode, including episode 0."""
        return None

    def before_turn(self, view: MemoryView) -> HookResult:
        """Return a request or None. Called before each play prompt of a new turn."""
        return None

    def after_turn(self, view: MemoryView) -> HookResult:
        """Return a request or None. Called after each turn, `view.turns[-1]`."""
        return None

    def after_episode(self, view: MemoryView, last: bool) -> HookResult:
        """Return a request or None. Called after each episode; `last` is True if no other episode follows."""
        return None

    def on_answer(self, request: Request, answer: Answer, view: MemoryView) -> HookResult:
        """Store an answer, even if it is invalid, cut or empty. By default, `on_reflection` receives valid ones.

        Args:
            request: The request that the model answered.
            view: Input of the hooks at this point.

        Returns:
            The next request, or None.
        """
        if answer.reason is None:
            self.on_reflection(answer.text, view)
        return None

    def on_reflection(self, text: str, view: MemoryView) -> None:
        """Store a valid answer."""

    def render(self, view: MemoryView) -> str:
        """Return the memory section of a play prompt. If it is empty, the prompt omits the section."""
        return ""

    def shorten(self) -> bool:
        """Drop the oldest rendered item. Return False if no item is left."""
        return False

    def thoughts(self, turns: Sequence[TurnRecord]) -> Sequence[str]:
        """Return one text per turn: the shown part of its thought, or an empty string; empty if none is ever shown."""
        return ()

    def events(self) -> Sequence[Mapping[str, Any]]:
        """Return the events since the last call, as JSON objects with a key `event`."""
        return ()

    def max_requests(self, episodes: int) -> int | None:
        """Return the maximum number of requests in a meta-episode, or None if only `max_calls` limits them."""
        return None

    def bank_text(self) -> str:
        """Return the contents of the bank's file. Raises TypeError if the memory has no bank."""
        raise TypeError(f"{type(self).__name__} has the option scope, but no bank_text().")


REQUIRED_HOOKS = ("begin", "render")
"""Methods that every memory defines."""


def is_memory(value: object) -> bool:
    """Return True if a value is a memory itself, and no class or function that creates one."""
    return not isinstance(value, str | type) and all(callable(getattr(value, hook, None)) for hook in REQUIRED_HOOKS)


class EpisodicMemory(Memory):
    """Memory of the method: all earlier reflections, whole episodes, both, or nothing.

    If reflections are on, the model reflects on the previous episode before each episode except the first.
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

    def max_requests(self, episodes: int) -> int:
        return episodes - 1 if self.reflects else 0

    def on_reflection(self, text: str, view: MemoryView) -> None:
        self._reflections.append((view.records[-1].index, text))

    def _items(self, view: MemoryView) -> list[str]:
        items: list[str] = []
        written = dict(self._reflections)
        for record in view.records:
            # If the conversation carries the earlier episodes, it already shows them and the reflections on them.
            if self.carries_transcript and not view.continuing:
                items.append(view.style.remember_episode(record, view.shown(record)))
            if record.index in written and not (view.continuing and self.carries_transcript):
                items.append(view.style.remember_reflection(record.index, written[record.index]))
        return items

    def render(self, view: MemoryView) -> str:
        items = self._items(view)
        # shorten() can only drop items that the last prompt has shown.
        self._held = len(items)
        return BLOCK.join(items[self._dropped :])

    def shorten(self) -> bool:
        if self._dropped >= self._held:
            return False
        self._dropped += 1
        return True
