"""The course of a memory's calls of the model: from its hooks to requests, and from replies back to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from mage_envs.text.parser import INVALID, LENGTH, Reply, parse_reply
from mage_envs.text.prompts import TurnRecord
from wrappers.answers import unusable
from wrappers.chat import Chat
from wrappers.controls import Control
from wrappers.memory import (
    REMARK,
    Answer,
    Asked,
    HasHeading,
    MemoryStrategy,
    MemoryView,
    NeedsFreshPrompts,
    Request,
    ShowsThoughts,
    TakesAnswers,
    TakesReflections,
    TellsEvents,
    WatchesTurns,
)

AFTER_TURN, AFTER_EPISODE, BEFORE_EPISODE, BEFORE_TURN = "after_turn", "after_episode", "before_episode", "before_turn"
"""The hooks in the order in which they are called between two play prompts."""

_SERVED: WeakValueDictionary[int, MemoryCalls] = WeakValueDictionary()
"""By the id of a memory: whom it was started for last."""


class TooManyCalls(RuntimeError):
    """A strategy that never comes to an end of its requests; the message names it."""


class MemoryCalls:
    """Calls a strategy's hooks, and keeps the request that waits for its answer."""

    def __init__(self, memory: MemoryStrategy, max_calls: int, converses: bool, control: Control) -> None:
        """`max_calls`: most requests between two play prompts; `converses`: whether they go on with one chat.

        Raises ValueError for a strategy that cannot do that.
        """
        if converses and isinstance(memory, NeedsFreshPrompts):
            raise ValueError(
                f"Memory {type(memory).__name__} does not go with context='conversation', because "
                f"{memory.no_conversation}; leave context at 'rebuilt'."
            )
        self.memory, self.control = memory, control
        self._controlled = type(control) is not Control
        self.running = False
        """Whether a meta-episode is under way."""
        self.pending: Request | None = None
        """The request that the model is asked now."""
        self._max_calls = max_calls
        self._made = 0
        self._rendered = self._told_length = 0
        """Characters of the memory section in the last play prompt, and as they were told last."""
        self._sees_the_end = "last" in inspect.signature(memory.after_episode).parameters
        self._watching = memory if isinstance(memory, WatchesTurns) else None
        self._telling = memory if isinstance(memory, TellsEvents) else None
        self._thinking = memory if isinstance(memory, ShowsThoughts) else None
        self._answering = memory if isinstance(memory, TakesAnswers) else None
        self._reflecting = memory if isinstance(memory, TakesReflections) else None
        self.instruction = "" if self._thinking is None else self._thinking.instruction
        """How to come to an answer, where the strategy says it."""
        self.heading = memory.heading if isinstance(memory, HasHeading) else ""

    def begin(self, seed: int, options: Mapping[str, Any]) -> None:
        """Starts the meta-episode of a seed and of the reset's options.

        Raises RuntimeError where the memory is in the middle of another one elsewhere."""
        other = _SERVED.get(id(self.memory))
        if other is not None and other is not self and other.running and other.memory is self.memory:
            name = type(self.memory).__name__
            raise RuntimeError(
                f"One {name} serves two meta-episodes at once. Give memory= a name, or a function that makes a new one "
                f"(memory={name}, or memory=lambda: {name}(...)), so that each environment has its own."
            )
        _SERVED[id(self.memory)] = self
        self.running = True
        self.pending = None
        self._rendered = self._told_length = 0
        self.play()
        self.memory.begin()
        self.control.begin(seed, str(options.get("opponent") or options.get("task") or seed))

    def end(self) -> None:
        """Ends it."""
        self.running = False

    def play(self) -> None:
        """A play prompt is shown, so that counting starts again."""
        self._made = 0

    def call(self, hook: str, view: Callable[[], MemoryView], last: bool) -> Request | None:
        """What that hook asks. `view` makes what it sees; `last`: whether the episode is the meta-episode's last."""
        memory, watching = self.memory, self._watching
        asked: Asked = None
        if self._controlled and not self.control.allows(hook in (AFTER_TURN, AFTER_EPISODE), view().episode):
            return None
        if hook == BEFORE_EPISODE:
            seen = view()
            asked = memory.before_episode(seen.episode, seen)
        elif hook == AFTER_EPISODE and self._sees_the_end:
            asked = memory.after_episode(view(), last=last)
        elif hook == AFTER_EPISODE and not last:
            asked = memory.after_episode(view())
        elif watching is not None and hook in (BEFORE_TURN, AFTER_TURN):
            asked = watching.before_turn(view()) if hook == BEFORE_TURN else watching.after_turn(view())
        return self._ask(asked)

    def settle(self, chat: Chat, episode: int) -> None:
        """What comes next is the first play prompt of an episode: a chat goes on, or starts anew."""
        if self.memory.carries_transcript:
            self.control.settle(chat, episode)
        else:
            chat.clear()

    def tag(self, remark_tag: str | None) -> str | None:
        """The tag that the pending request wants, in a style with this `remark_tag`."""
        if self.pending is None or self.pending.tag == REMARK:
            return remark_tag
        return self.pending.tag

    def take(self, reply: str, view: MemoryView) -> Answer:
        """Hands the reply to the strategy; `pending` is then what it asks next, if anything."""
        request = self.pending
        if request is None:
            raise RuntimeError("take() without a request: call() asks for one.")
        answer = self._read(request, reply, self.tag(view.style.remark_tag))
        asked: Asked = None
        if self._answering is not None:
            asked = self._answering.on_answer(request, answer, view)
        elif self._reflecting is not None and answer.reason is None:
            self._reflecting.on_reflection(answer.text, view)
        self._ask(asked)
        return answer

    def may_think(self, thought: str, before: Sequence[str]) -> bool:
        """Whether a reply without an action is one more thought, after those `before` it, and spends no turn."""
        return bool(thought) and self._thinking is not None and len(before) < self._thinking.max_thoughts

    def thoughts(self, turns: Sequence[TurnRecord]) -> Sequence[str]:
        """What a play prompt shows of each turn's thought."""
        return () if self._thinking is None else self._thinking.thoughts(turns)

    def render(self, view: MemoryView) -> str:
        """The memory section of a play prompt."""
        text = self.control.text(view, self.memory.render)
        self._rendered = len(text)
        return text

    def told(self) -> dict[str, Any]:
        """As `info` has it: what the strategy wants recorded since it was asked last, and how long its section of
        play prompts is, where that has changed."""
        events = [dict(event) for event in self._telling.events()] if self._telling is not None else []
        if self._rendered != self._told_length:
            self._told_length = self._rendered
            events.append({"event": "rendered", "characters": self._rendered})
        return {"memory_events": events} if events else {}

    def _ask(self, asked: Asked) -> Request | None:
        self.pending = Request("reflect", asked) if isinstance(asked, str) else asked
        if self.pending is not None:
            self._made += 1
            name = type(self.memory).__name__
            if self._made > self._max_calls:
                raise TooManyCalls(
                    f"Memory {name} asked the model {self._made} times between two turns; at most "
                    f"max_calls={self._max_calls} are allowed."
                )
            if self._answering is None and self._reflecting is None:
                raise TypeError(f"Memory {name} asks the model, but has neither on_answer nor on_reflection.")
        return self.pending

    @staticmethod
    def _read(request: Request, reply: str, tag: str | None) -> Answer:
        parsed = parse_reply(reply, tag)
        reason = unusable(reply, tag)
        if request.tag is None and isinstance(reply, Reply) and reply.truncated:
            reason = reason or LENGTH
        if reason is None and not parsed.answer:
            reason = INVALID
        text = parsed.reply if parsed.answer is None else parsed.answer
        return Answer(text[: request.limit], parsed.answer is not None, reason)
