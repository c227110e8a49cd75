"""The one prompt builder: what a prompt may be made of (the views), and the default wording (`Prose`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mage_envs.core import DRAW, FAILURE, SUCCESS, HandResult, Turn

BLOCK = "\n\n"
"""What stands between two items of a memory's text; styles without paragraphs show them in a row."""

_VERDICTS = {SUCCESS: "a success", FAILURE: "a failure", DRAW: "neither a success nor a failure"}


class TurnRecord(NamedTuple):
    """One answer of the learner: what it saw, what it answered."""

    observation: str
    action: str | None
    """The action's text, None where the answer held none."""
    turn: Turn
    legal: bool
    hand: int = 0
    ended: HandResult | None = None
    """The hand that this answer ended."""
    reply: str = ""
    """The whole reply, without the reasoning that precedes `</think>`."""
    thought: str = ""
    """What the reply said before its action, and the replies since the turn before that were a thought alone."""

    @property
    def result(self) -> str:
        """What was seen of the hand that this answer ended, else empty."""
        return "" if self.ended is None else self.ended.observation


@dataclass(frozen=True)
class EpisodeRecord:
    """One finished episode, as the learner may remember it."""

    index: int
    first_observation: str
    turns: tuple[TurnRecord, ...]
    outcome: str
    """The last observation."""
    reward: float
    value: float
    """The learner's return in the game's unit."""
    success: bool
    timeout: bool
    unit: str
    hands: tuple[HandResult, ...] = ()
    ended_as: str = DRAW
    """`success`, `failure` or `draw`."""
    shows_score: bool = True
    """True if the learner is shown the return."""

    def told(self) -> dict[str, Any]:
        """As `info` has it at the end of the episode."""
        return {
            "ended_episode": self.index,
            "episode_return": self.reward,
            "episode_value": self.value,
            "success": self.success,
            "timeout": self.timeout,
            "outcome": self.ended_as,
            "ended_with": [hand.observation for hand in self.hands],
            "seats": [hand.seat for hand in self.hands],
        }


class PlayView(NamedTuple):
    """What a play prompt is made of."""

    rules: str
    episode: int
    num_episodes: int
    first_observation: str
    turn: Turn
    observation: str
    """The raw text now, the result of a hand that just ended first."""
    turns: Sequence[TurnRecord]
    """The answers of this episode so far that the window shows, oldest first."""
    full_turns: int
    """How many of the newest of `turns` show their observation."""
    omitted: int
    """Answers of this episode older than the window."""
    memory: str
    last: TurnRecord | None
    """The answer just given, None at an episode's start."""
    hand: int = 0
    hands: int = 1
    """Hands per episode."""
    max_turns: int = 0
    """Answers allowed per hand; 0: not said."""
    may_stop_early: bool = False
    """Whether a success ends the series."""
    alone: bool = False
    """Whether the game has one player, so that nobody plays against the learner."""
    heading: str = ""
    """Above the memory, in place of the style's own words."""
    thoughts: Sequence[str] = ()
    """What the learner wrote before the action of each of `turns`, empty where it is not shown; () shows none."""
    thinking: Sequence[str] = ()
    """Replies since the last turn that were a thought alone."""
    instruction: str = ""
    """How to come to an answer, in place of the style's own words."""


class ContinueView(NamedTuple):
    """What a play message that continues a conversation is made of: what is new since the last one."""

    episode: int
    num_episodes: int
    turn: Turn
    observation: str
    """The raw text now, the result of a hand that just ended first."""
    last: TurnRecord | None
    """The answer just given, None at an episode's start."""
    previous: EpisodeRecord | None = None
    """The episode before, where this message continues a conversation across it."""
    thinking: Sequence[str] = ()
    """Replies since the last turn that were a thought alone."""
    instruction: str = ""
    """How to come to an answer, in place of the style's own words."""


@dataclass(frozen=True)
class ReflectView:
    """What a reflect prompt is made of."""

    rules: str
    num_episodes: int
    record: EpisodeRecord
    """The episode to reflect on."""
    shown: Sequence[TurnRecord]
    """Its answers that the window shows."""
    alone: bool = False
    """Whether the game has one player."""


class PromptStyle(Protocol):
    """The wording of prompts and of answers.

    The `play` and `reflect` texts stand alone; the `continue_` ones hold only what is new in a conversation
    that already shows the rest.
    """

    action_tag: str | None
    """Tag around an action in a reply; None: the bare reply is the action."""
    remark_tag: str | None
    """Tag around a remark in a reply; None: the bare reply is the remark."""

    def play(self, view: PlayView) -> str: ...

    def continue_play(self, view: ContinueView) -> str: ...

    def reflect(self, view: ReflectView) -> str: ...

    def continue_reflect(self, view: ReflectView) -> str: ...

    def remember_reflection(self, episode: int, text: str) -> str:
        """A reflection on `episode`, as the memory section shows it."""
        ...

    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        """A whole episode, as the memory section shows it."""
        ...


def answer_text(record: TurnRecord) -> str:
    """What was answered, in the words of a transcript."""
    if record.action is None:
        return "(no action inside the tags, nothing happened)"
    shown = record.action if len(record.action) <= 200 else record.action[:197] + "..."
    return shown if record.legal else f"{shown} (not a legal action, nothing happened)"


def outcome_text(record: EpisodeRecord) -> str:
    """Return how the episode ended, in one sentence: the only text that tells a learner so, under every memory."""
    verdict = "out of turns, a failure" if record.timeout else _VERDICTS[record.ended_as]
    if not record.shows_score:
        return f"Result: {verdict}."
    return f"Result: {verdict}; in total {record.value:+g} ({record.unit})."


def _transcript(turns: Sequence[TurnRecord], skipped: int = 0) -> str:
    lines = [f"({skipped} earlier turns are not shown.)"] if skipped > 0 else []
    for number, record in enumerate(turns, start=skipped + 1):
        lines.append(f"Turn {number}. You saw:\n{record.observation}\nYou answered: {answer_text(record)}")
    return "\n".join(lines)


_SAME_OPPONENT = "whoever plays against you, and how, stays the same throughout"


class Prose:
    """The default style: full sentences, answers in `<action>` and `<remark>` tags."""

    action_tag: str | None = "action"
    remark_tag: str | None = "remark"

    def play(self, view: PlayView) -> str:
        series = "" if view.num_episodes == 1 else self._series(view)
        parts = [f"# Task\n{view.rules}{series}{self._limits(view)}"]
        if view.omitted or len(view.turns) > view.full_turns:
            parts.append(f"# How this episode began\n{view.first_observation}")
        if view.memory:
            parts.append(f"# {view.heading or 'What you know from earlier episodes'}\n{view.memory}")
        if view.turns:
            parts.append(f"# This episode so far\n{self._turns(view)}")
        if view.thinking:
            parts.append("# Your thoughts on this turn\n" + "\n".join(view.thinking))
        parts.append(self._now(view))
        return "\n\n".join(parts)

    def continue_play(self, view: ContinueView) -> str:
        parts = []
        if view.previous is not None:
            parts.append(f"{view.previous.outcome}\n{outcome_text(view.previous)}")
        if view.last is None and not view.thinking:
            parts.append(f"Episode {view.episode + 1} of {view.num_episodes} begins.")
        parts.append(self._now(view))
        return "\n\n".join(parts)

    def reflect(self, view: ReflectView) -> str:
        record = view.record
        skipped = len(record.turns) - len(view.shown)
        return (
            f"# Task\n{view.rules}\n\n# How episode {record.index + 1} began\n{record.first_observation}\n\n"
            f"# Episode {record.index + 1} of {view.num_episodes}, which is over\n{_transcript(view.shown, skipped)}\n"
            f"It ended with:\n{record.outcome}\n{outcome_text(record)}\n\n{self._reflect_request(view)}"
        )

    def continue_reflect(self, view: ReflectView) -> str:
        return f"{view.record.outcome}\n{outcome_text(view.record)}\n\n{self._reflect_request(view)}"

    def remember_reflection(self, episode: int, text: str) -> str:
        return f"Your remark after episode {episode + 1}: {text}"

    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        skipped = len(record.turns) - len(shown)
        return (
            f"Episode {record.index + 1}:\n{_transcript(shown, skipped)}\n"
            f"It ended with:\n{record.outcome}\n{outcome_text(record)}"
        )

    @staticmethod
    def _series(view: PlayView) -> str:
        most = "up to " if view.may_stop_early else ""
        same = "each starts from the same task" if view.alone else _SAME_OPPONENT
        return (
            f" You play {most}{view.num_episodes} episodes in the same setting: {same}. "
            f"This is episode {view.episode + 1} of {view.num_episodes}."
        )

    @staticmethod
    def _limits(view: PlayView) -> str:
        what = "episode" if view.hands == 1 else "hand"
        hands = "" if view.hands == 1 else f" An episode has {view.hands} hands; this is hand {view.hand + 1}."
        if not view.max_turns:
            return hands
        return (
            f"{hands} You may give at most {view.max_turns} answers per {what}; running out of them loses the episode."
        )

    @staticmethod
    def _turns(view: PlayView) -> str:
        first_full = len(view.turns) - view.full_turns
        lines = [f"({view.omitted} earlier turns are not shown.)"] if view.omitted else []
        for index, record in enumerate(view.turns):
            number = view.omitted + index + 1
            seen = f" You saw:\n{record.observation}\n" if index >= first_full else " "
            thought = f"You thought: {view.thoughts[index]}\n" if view.thoughts and view.thoughts[index] else ""
            ended = f" That hand ended: {record.result}" if record.result and index < first_full else ""
            lines.append(f"Turn {number}.{seen}{thought}You answered: {answer_text(record)}{ended}")
        return "\n".join(lines)

    @staticmethod
    def _now(view: PlayView | ContinueView) -> str:
        notice = "Noted; nothing has changed, and no turn is spent.\n\n" if view.thinking else ""
        if not view.thinking and view.last is not None and not view.last.legal and not view.last.result:
            fault = "held no action inside the tags" if view.last.action is None else "was not a legal action"
            notice = f"Your last answer {fault}; nothing happened, but the turn is spent.\n\n"
        legal = f"\nLegal actions: {' | '.join(view.turn.legal_actions)}" if view.turn.legal_actions else ""
        return (
            f"# Now\n{notice}{view.observation}{legal}\n\n"
            f"{view.instruction or 'Think first if you like.'} End your reply with one action inside tags, like this: "
            "<action>your action</action>"
        )

    @staticmethod
    def _reflect_request(view: ReflectView) -> str:
        about = "the setting" if view.alone else "the setting and about whoever you face"
        return (
            f"Another episode in the same setting follows. Say what this one shows about {about}, what went wrong or "
            "right, and how you will play next. End your reply with that plan inside "
            "tags, like this: <remark>your plan</remark>"
        )
