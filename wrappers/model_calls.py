"""Calls of the model: the chat with it, the checks of its answers, and the requests of a memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import gymnasium as gym

from mage_envs.loading.defaults import overrides
from mage_envs.settings import GameSettings
from mage_envs.text.parser import INVALID, LENGTH, OVERFLOW, Reply, parse_reply
from mage_envs.text.prompts import EpisodeRecord, PromptStyle, TurnRecord
from mage_envs.wrappers.memory import BELIEF, GUESS, REMARK, Answer, HookResult, Memory, MemoryView, Request

if TYPE_CHECKING:
    from mage_envs.wrappers.belief_question import BeliefQuestion

Message = dict[str, str]
"""Chat message: `{"role": "user" or "assistant", "content": text}`."""


class Chat:
    """Messages that the model's next answer replies to."""

    def __init__(self, converses: bool, style: PromptStyle) -> None:
        self.converses = converses
        """True if messages are appended. Otherwise every message starts a new chat."""
        self.renaming = style.renaming
        self.text = ""
        """Newest message to the model."""
        self.fresh = True
        """True if that message does not extend the messages of the previous call."""
        self.known_episodes = 0
        """Number of finished episodes when the newest message was sent."""
        self._messages: list[Message] = []
        self._restored = False
        self._aside: tuple[list[Message], int] | None = None

    def __bool__(self) -> bool:
        """Return True if the next message continues a conversation."""
        return bool(self._messages)

    def clear(self) -> None:
        """Remove all messages, so that the next one starts a chat."""
        self._messages = []

    def add_user_message(self, text: str) -> None:
        """Set the next message to the model."""
        self.fresh = self._restored or not self._messages
        self._restored = False
        # All prompts pass here, so that no word is left out.
        self.text = text = self.renaming.rename(text)
        if self.converses:
            self._messages.append({"role": "user", "content": text})

    def add_reply(self, reply: str) -> None:
        """Append the model's answer, if the chat is a conversation."""
        if self.converses:
            self._messages.append({"role": "assistant", "content": str(reply)})

    def messages(self) -> list[Message]:
        """Return all messages that the next answer replies to."""
        return list(self._messages) if self._messages else [{"role": "user", "content": self.text}]

    def copy_messages(self) -> list[Message]:
        """Return a copy of the messages so far, for `restore`."""
        return [dict(message) for message in self._messages]

    def restore(self, messages: Sequence[Message]) -> None:
        """Replace the messages so far. The next message does not extend the previous call, so it is marked as fresh."""
        self._messages = [dict(message) for message in messages]
        self._restored = True

    def open_aside(self) -> None:
        """Begin a question that later messages must not show."""
        self._aside = self.copy_messages(), self.known_episodes

    def close_aside(self) -> None:
        """Remove all messages since `open_aside`, if it was called."""
        if self._aside is not None:
            messages, self.known_episodes = self._aside
            if messages != self._messages:
                self.restore(messages)
            self._aside = None

    def shorten(self) -> bool:
        """Drop the oldest question after the first, with its answer. Return False if none is left to drop."""
        # Five messages: the first question with its answer, one later pair that can be dropped, and the open question.
        if len(self._messages) < 5:
            return False
        # The first message alone holds the rules. Its answer stays, so that questions and answers still alternate.
        del self._messages[2:4]
        self.fresh = True
        return True


# -- answers ---------------------------------------------------------------------------------------------------


def outcome(
    *,
    invalid_reason: str | None = None,
    action: str | None = None,
    penalty: float = 0.0,
    hand_reward: float = 0.0,
) -> dict[str, Any]:
    """Return the entries of `info` for an answer that ended neither a hand nor an episode.

    Args:
        invalid_reason: Reason why the answer is invalid, or None.
        action: Action that was played, in the game's spelling.
        penalty: Penalty of the answer, at least 0.
        hand_reward: The answer's share of the episode reward R_k.

    Returns:
        The entries.
    """
    return {
        "invalid_reason": invalid_reason,
        "action": action,
        "penalty": penalty,
        "hand_reward": hand_reward,
        "hand_end": False,
        "episode_end": False,
        "episode_return": None,
        "success": None,
    }


def unusable(reply: str, tag: str | None) -> str | None:
    """Return the reason why a reply cannot contain an answer, or None if it can.

    Without a tag, a reply may end at its token limit, because one-word styles set the limit to the answer's length.
    """
    if not isinstance(reply, Reply):
        return None
    if reply.overflow:
        return OVERFLOW
    if reply.no_text is not None:
        return reply.no_text
    return LENGTH if reply.truncated and tag is not None else None


def penalty_of(reply: str, reason: str | None, settings: GameSettings) -> float:
    """Compute the penalty for an invalid answer plus the length penalty (docs/method.md, section 2).

    Args:
        reply: The reply. Only a `Reply` with a known limit has a length penalty.
        reason: Reason why the answer is invalid, or None.
        settings: Settings of the game, with both coefficients.

    Returns:
        The penalty, at least 0. If the prompt overflowed or the server sent no text, only the length penalty applies.
    """
    penalty = settings.invalid_penalty if reason in (INVALID, LENGTH) else 0.0
    if settings.length_penalty and isinstance(reply, Reply) and reply.limit > 0:
        # The penalty grows linearly from half of the limit to the limit.
        half = reply.limit / 2
        penalty += settings.length_penalty * min(max((reply.tokens - half) / half, 0.0), 1.0)
    return penalty


# -- requests of a memory --------------------------------------------------------------------------------------

AFTER_TURN, AFTER_EPISODE, BEFORE_EPISODE, BEFORE_TURN = "after_turn", "after_episode", "before_episode", "before_turn"
"""Hooks, in the order of their calls between two play prompts."""
BEFORE_PLAY = "before_play"
"""Place of the question for a belief: between the last two of these hooks."""

_SERVED: WeakValueDictionary[int, MemoryCalls] = WeakValueDictionary()
"""By the id of a memory: the `MemoryCalls` that started it last."""


class Control:
    """Base class without any effect. Each subclass changes one aspect of the memory."""

    def begin(self, seed: int, task: str, seat: Any = None) -> None:
        """Start a meta-episode in a seat. `task` is the opponent's name, otherwise the task, otherwise the seed."""

    def read_env(self, env: gym.Env[Any, Any]) -> None:
        """Read from the environment what the control needs. Called after the reset of each episode."""

    def allows(self, after_hook: bool, episode: int) -> bool:
        """Return True if a hook of the strategy may run. `after_hook` is True for hooks after a turn or an episode."""
        return True

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        """Return the memory section of a play prompt."""
        return render(view)

    def settle(self, chat: Chat, episode: int) -> None:
        """Change a chat that continues, before the first play prompt of an episode."""

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        """Return the episode whose end is stated in the first message of the next one, if the chat continues."""
        return records[-1]

    def to_info(self) -> dict[str, Any]:
        """Return the entries of `info["private"]` about the control; none for most of them."""
        return {}


class TooManyCalls(RuntimeError):
    """Error for a strategy with too many requests between two play prompts. The message names the strategy."""


class MemoryCalls:
    """Caller of a strategy's hooks, which also holds the pending request."""

    def __init__(
        self,
        memory: Memory,
        max_calls: int,
        converses: bool,
        control: Control,
        question: BeliefQuestion | None = None,
    ) -> None:
        """Prepare the calls of a strategy.

        Args:
            max_calls: Maximum number of requests between two play prompts.
            converses: True if the context is `conversation`.
            control: Control that the strategy runs under.
            question: Question between the episodes, or None.

        Raises:
            ValueError: If the strategy does not support the context `conversation`.
        """
        if converses and memory.no_conversation:
            raise ValueError(
                f"Memory {type(memory).__name__} does not support context='conversation', because "
                f"{memory.no_conversation}. Use context='rebuilt'."
            )
        self.memory, self.control, self.question = memory, control, question
        self._beliefs: list[dict[str, Any]] = []
        """Events with the answers to the question since the last call of `to_info`."""
        self._controlled = type(control) is not Control
        self.running = False
        """True if a meta-episode is running."""
        self.pending: Request | None = None
        """Request that waits for the model's answer."""
        self._max_calls = max_calls
        self._made = 0
        self._rendered = self._told_length = 0
        """Number of characters of the memory section in the last play prompt, and the number in the last event."""
        # Compared once here, because most memories watch no turns, and a view costs time at every step.
        self._watches_turns = overrides(memory, Memory, "before_turn", "after_turn")
        self._reads_answers = overrides(memory, Memory, "on_answer", "on_reflection")

    def max_requests(self, episodes: int, turns: int) -> int:
        """Return the maximum number of replies of a meta-episode that are no turns: requests, thoughts and beliefs.

        Args:
            turns: Maximum number of turns of all episodes together.
        """
        thoughts = turns * self.memory.max_thoughts + (0 if self.question is None else episodes - 1)
        if (limit := self.memory.max_requests(episodes)) is not None:
            return thoughts + limit
        # Requests may precede each episode and follow the last one, and any turn if the memory watches turns.
        places = turns + 1 if self._watches_turns else episodes + 1
        return thoughts + self._max_calls * places

    def begin(self, seed: int, options: Mapping[str, Any]) -> None:
        """Start a meta-episode with the seed and the options of the reset.

        Raises RuntimeError if another environment runs a meta-episode with the same memory.
        """
        # An id may be reused after its object was deleted, so the entry counts only for the same object.
        owner = _SERVED.get(id(self.memory))
        if owner is not None and owner is not self and owner.running and owner.memory is self.memory:
            name = type(self.memory).__name__
            raise RuntimeError(
                f"One {name} is used by two meta-episodes at once. Pass memory= a name, or a function that creates one "
                f"(memory={name}, or memory=lambda: {name}(...)), so that each environment has its own."
            )
        _SERVED[id(self.memory)] = self
        self.running = True
        self.pending = None
        self._rendered = self._told_length = 0
        self._beliefs.clear()
        self.play()
        self.memory.begin()
        self.control.begin(seed, str(options.get("opponent") or options.get("task") or seed), options.get("seat"))

    def end(self) -> None:
        """End the meta-episode."""
        self.running = False

    def play(self) -> None:
        """Reset the number of requests, because a play prompt follows."""
        self._made = 0

    def call(self, hook: str, view: Callable[[], MemoryView], is_last: bool) -> Request | None:
        """Call a hook of the strategy.

        Args:
            view: Function that creates the hook's input, called only if the input is needed.
            is_last: True if the episode is the last one of the meta-episode.

        Returns:
            The hook's request, or None.
        """
        memory = self.memory
        hook_result: HookResult = None
        if self._controlled and not self.control.allows(hook in (AFTER_TURN, AFTER_EPISODE), view().episode):
            return None
        if hook == BEFORE_EPISODE:
            current_view = view()
            hook_result = memory.before_episode(current_view.episode, current_view)
        elif hook == AFTER_EPISODE:
            hook_result = memory.after_episode(view(), last=is_last)
        elif self._watches_turns:
            hook_result = memory.before_turn(view()) if hook == BEFORE_TURN else memory.after_turn(view())
        return self._ask(hook_result)

    def ask_belief(self, view: MemoryView, previous: EpisodeRecord | None) -> Request | None:
        """Return the question before an episode, or None before the first one.

        Args:
            view: Input of the hooks at this point.
            previous: The previous episode, if the chat does not state its end yet.
        """
        if self.question is None or view.episode == 0:
            return None
        # `render` may log events and store what it showed. A copy renders, so that the play prompt finds no trace.
        memory = self.control.text(view, deepcopy(self.memory).render)
        # The strategy does not receive the answer, so its limit of requests does not count this one.
        self.pending = self.question.request(view, memory, self.memory.heading, previous)
        return self.pending

    def settle(self, chat: Chat, episode: int) -> None:
        """Continue or clear the chat before the first play prompt of an episode."""
        if self.memory.carries_transcript:
            self.control.settle(chat, episode)
        else:
            chat.clear()

    def tag(self, remark_tag: str | None) -> str | None:
        """Return the tag of the pending request. `remark_tag` is the style's own tag for remarks."""
        if self.pending is None or self.pending.tag == REMARK:
            return remark_tag
        return self.pending.tag

    def on_answer(self, reply: str, view: MemoryView) -> Answer:
        """Pass the reply to the strategy and return it as an answer. `pending` is then the next request or None."""
        request = self.pending
        if request is None:
            raise RuntimeError("take() was called without a pending request. Call call() first.")
        answer = self._read(request, reply, self.tag(view.style.remark_tag))
        if request.kind in (BELIEF, GUESS) and self.question is not None:
            self.pending = None
            # An answer that is invalid already, such as one that was cut, has no text to read.
            event = self.question.read(answer.text if answer.reason is None else "")
            self._beliefs.append(event)
            return replace(answer, reason=answer.reason or (INVALID if None in event.values() else None))
        self._ask(self.memory.on_answer(request, answer, view))
        return answer

    def may_think(self, thought: str, earlier_thoughts: Sequence[str]) -> bool:
        """Return True if a reply without an action counts as one more thought, after `earlier_thoughts`."""
        return bool(thought) and len(earlier_thoughts) < self.memory.max_thoughts

    def thoughts(self, turns: Sequence[TurnRecord]) -> Sequence[str]:
        """Return the shown part of each turn's thought, for a play prompt."""
        return self.memory.thoughts(turns)

    def render(self, view: MemoryView) -> str:
        """Return the memory section of a play prompt, and store its length for `to_info`."""
        text = self.control.text(view, self.memory.render)
        self._rendered = len(text)
        return text

    def to_info(self) -> dict[str, Any]:
        """Return the entry of `info` with the strategy's events since the last call.

        If the length of the memory section has changed, an event `rendered` states it.
        """
        events = [dict(event) for event in self.memory.events()]
        if self._beliefs:
            events += self._beliefs
            self._beliefs = []
        if self._rendered != self._told_length:
            self._told_length = self._rendered
            events.append({"event": "rendered", "characters": self._rendered})
        return {"memory_events": events} if events else {}

    def _ask(self, hook_result: HookResult) -> Request | None:
        self.pending = Request("reflect", hook_result) if isinstance(hook_result, str) else hook_result
        if self.pending is not None:
            self._made += 1
            name = type(self.memory).__name__
            if self._made > self._max_calls:
                raise TooManyCalls(
                    f"Memory {name} made {self._made} requests between two turns; the maximum is "
                    f"max_calls={self._max_calls}."
                )
            if not self._reads_answers:
                raise TypeError(f"Memory {name} returned a request, but has neither on_answer nor on_reflection.")
        return self.pending

    @staticmethod
    def _read(request: Request, reply: str, tag: str | None) -> Answer:
        parsed = parse_reply(reply, tag)
        reason = unusable(reply, tag)
        # A one-word action may end at its limit, but a request without a tag (such as JSON) may not.
        if request.tag is None and isinstance(reply, Reply) and reply.truncated:
            reason = reason or LENGTH
        if reason is None and not parsed.answer:
            reason = INVALID
        text = parsed.reply if parsed.answer is None else parsed.answer
        return Answer(text[: request.limit], parsed.answer is not None, reason)
