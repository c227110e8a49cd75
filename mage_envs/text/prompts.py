"""The content of a prompt (the views), the interface of a prompt style, and the parts of a prompt in full sentences.

`mage_envs.text.plain` has the default wording, `mage_envs.text.styles` the list of all styles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mage_envs.core import DRAW, FAILURE, SUCCESS, GameSpec, HandResult, Turn

BLOCK = "\n\n"
"""Separator of two items in a memory's text. Styles without paragraphs show the items in a row."""


class Frame(NamedTuple):
    """The constants of a meta-episode that a prompt may state: the game, what repeats, what is new, and the limits."""

    spec: GameSpec
    num_episodes: int = 1
    hands: int = 1
    """Hands per episode."""
    max_turns: int = 0
    """Answers allowed per hand; if 0, the prompt does not mention a limit."""
    may_stop_early: bool = False
    """True if a success ends the series."""
    replays: bool = False
    """True if each episode repeats the chance of the first one."""
    seats_change: bool | None = None
    """True if the learner's seat changes from hand to hand, None if that is not known."""
    tries: int = 0
    """Tries per turn of an opponent, after which a random legal action is played; 0 for a learner."""

    @property
    def single_player(self) -> bool:
        """Return True if the game has only one player."""
        return self.spec.players == 1


class TurnRecord(NamedTuple):
    """One answer of the learner, with the observation before it."""

    observation: str
    action: str | None
    """The action's text, or None if the answer held none."""
    turn: Turn
    legal: bool
    hand: int = 0
    ended: HandResult | None = None
    """Result of the hand, if this answer ended it."""
    reply: str = ""
    """The whole reply, without its thoughts."""
    thought: str = ""
    """Text before the action in the reply, after the thought-only replies since the previous turn."""
    reason: str | None = None
    """Reason why the answer is invalid (`mage_envs.text.parser`), or None."""
    drawn: bool = False
    """True if the action was drawn after an opponent's last try."""

    @property
    def result(self) -> str:
        """Return the last observation of the hand if this answer ended it, else an empty string."""
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

    def to_info(self) -> dict[str, Any]:
        """Return the entries of `info` at the end of the episode."""
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
    """The content of a play prompt."""

    frame: Frame
    episode: int
    first_observation: str
    turn: Turn
    observation: str
    """Current raw text, after the result of a hand that just ended."""
    turns: Sequence[TurnRecord]
    """Answers of this episode inside the window, oldest first."""
    full_turns: int
    """Number of the newest `turns` that show their observation."""
    omitted: int
    """Number of answers of this episode that are older than the window."""
    memory: str
    last: TurnRecord | None
    """The latest answer, or None at an episode's start."""
    hand: int = 0
    answer: int = 1
    """Number of the answer in this hand, or of an opponent's try in this turn, counted from 1."""
    heading: str = ""
    """Heading of the memory, instead of the style's own words."""
    thoughts: Sequence[str] = ()
    """Text before the action of each of `turns`, empty if it is not shown; () shows none."""
    thinking: Sequence[str] = ()
    """Thought-only replies since the last turn."""
    instruction: str = ""
    """Instruction for the answer, instead of the style's own words."""


class ContinueView(NamedTuple):
    """The content of a play message that continues a conversation: the news since the last message."""

    frame: Frame
    episode: int
    turn: Turn
    observation: str
    """Current raw text, after the result of a hand that just ended."""
    last: TurnRecord | None
    """The latest answer, or None at an episode's start."""
    hand: int = 0
    answer: int = 1
    """Number of the answer in this hand, counted from 1."""
    previous: EpisodeRecord | None = None
    """The previous episode, if this message continues a conversation across its end."""
    thinking: Sequence[str] = ()
    """Thought-only replies since the last turn."""
    instruction: str = ""
    """Instruction for the answer, instead of the style's own words."""


@dataclass(frozen=True)
class ReflectView:
    """The content of a reflect prompt."""

    frame: Frame
    record: EpisodeRecord
    """The episode to reflect on."""
    shown: Sequence[TurnRecord]
    """Answers of that episode inside the window."""


class BeliefView(NamedTuple):
    """The content of a question for the opponent between two episodes."""

    frame: Frame
    episode: int
    """Index of the episode that follows."""
    names: Sequence[str]
    """Opponents to choose from."""
    memory: str = ""
    """Memory section of the episode's play prompts."""
    heading: str = ""
    """Heading of the memory, instead of the style's own words."""
    continues: bool = False
    """True if the chat already shows the rest."""
    previous: EpisodeRecord | None = None
    """The previous episode, if the chat does not state its end yet."""
    one_name: bool = False
    """True to ask for one opponent, False for the probability of each."""


class Renaming:
    """Other words for a game in prompts and answers; here none."""

    def rename(self, text: str) -> str:
        """Return a text of a prompt in the words that the model sees."""
        return text

    def read(self, answer: str) -> str:
        """Return an answer in the words of the game."""
        return answer


_VERDICTS = {SUCCESS: "a success", FAILURE: "a failure", DRAW: "neither a success nor a failure"}


class PromptStyle(ABC):
    """Base class of the wording of prompts and of answers.

    The `play` and `reflect` texts are complete prompts. The `continue_` texts hold only the news in a conversation that
    already shows the rest. A class without this base is a style, too, if it has these: `as_style` adds the others.
    """

    action_tag: str | None = None
    """Tag around an action in a reply. If None, the bare reply is the action."""
    remark_tag: str | None = None
    """Tag around a remark in a reply. If None, the bare reply is the remark."""
    belief_tag: str | None = None
    """Tag around the probabilities, or the number or the name of an opponent. If None, beliefs cannot be asked for."""
    renaming = Renaming()
    """Other words for the game."""
    states_setting: bool = False
    """True if `setting` states more than the rules, so that every request of a memory needs it."""

    @abstractmethod
    def play(self, view: PlayView) -> str:
        """Return the prompt for an action."""

    @abstractmethod
    def continue_play(self, view: ContinueView) -> str:
        """Return the next message of a conversation, for an action."""

    @abstractmethod
    def reflect(self, view: ReflectView) -> str:
        """Return the prompt for a reflection."""

    @abstractmethod
    def continue_reflect(self, view: ReflectView) -> str:
        """Return the next message of a conversation, for a reflection."""

    @abstractmethod
    def remember_reflection(self, episode: int, text: str) -> str:
        """Return a reflection on `episode` as an item of the memory."""

    @abstractmethod
    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        """Return a whole episode as an item of the memory."""

    def setting(self, frame: Frame) -> str:
        """Return the rules, and if `states_setting` also what repeats, what is new, and the limits."""
        return frame.spec.rules

    def verdict(self, record: EpisodeRecord) -> str:
        """Return how an episode ended, without a full stop: `a failure; in total -1 chips`."""
        return f"{record.value:+g} {record.unit}" if record.shows_score else record.ended_as

    def ended(self, record: EpisodeRecord) -> str:
        """Return the last state of an episode and how it ended."""
        verdict = "out of turns, a failure" if record.timeout else _VERDICTS[record.ended_as]
        total = f"; in total {record.value:+g} ({record.unit})" if record.shows_score else ""
        return f"{record.outcome}\nResult: {verdict}{total}."

    def ask_belief(self, view: BeliefView) -> str:
        """Return the prompt for the question which of the named opponents the learner faces, or the next message."""
        raise NotImplementedError


def answer_text(record: TurnRecord) -> str:
    """Return the answer in the words of a transcript."""
    if record.action is None:
        return "(no action inside the tags, nothing happened)"
    action_text = record.action if len(record.action) <= 200 else record.action[:197] + "..."
    return action_text if record.legal else f"{action_text} (not a legal action, nothing happened)"


# -- the words that the styles `plain`, `paper` and `neutral` share ------------------------------------------------

_KNOWN = "What you know from earlier episodes"


def _transcript(turns: Sequence[TurnRecord], skipped: int = 0) -> str:
    lines = [f"({skipped} earlier turns are not shown.)"] if skipped > 0 else []
    for number, record in enumerate(turns, start=skipped + 1):
        lines.append(f"Turn {number}. You saw:\n{record.observation}\nYou answered: {answer_text(record)}")
    return "\n".join(lines)


class Sentences(PromptStyle):
    """Base class of the styles with full sentences and answers in `<action>` and `<remark>` tags."""

    action_tag = "action"
    remark_tag = "remark"
    belief_tag = "type"
    states_setting = True

    # -- the words in which the styles differ ---------------------------------------------------------------

    @abstractmethod
    def setting(self, frame: Frame) -> str:
        """Return the description of the game in a request."""

    @abstractmethod
    def ended(self, record: EpisodeRecord) -> str:
        """Return how an episode ended."""

    @abstractmethod
    def _task(self, view: PlayView) -> str:
        """Return the description of the game in a play prompt."""

    @abstractmethod
    def _now(self, view: PlayView | ContinueView) -> str:
        """Return the request for an action."""

    @abstractmethod
    def _reflect_request(self, view: ReflectView) -> str:
        """Return the request for a reflection."""

    # -- what they share ------------------------------------------------------------------------------------

    def play(self, view: PlayView) -> str:
        parts = [f"# Task\n{self._task(view)}"]
        # The window shows the first observation itself if it holds all turns with their observations.
        if view.omitted or len(view.turns) > view.full_turns:
            parts.append(f"# How this episode began\n{view.first_observation}")
        if view.memory:
            parts.append(f"# {view.heading or _KNOWN}\n{view.memory}")
        if view.turns:
            parts.append(f"# This episode so far\n{self._turns(view)}")
        if view.thinking:
            parts.append("# Your thoughts on this turn\n" + "\n".join(view.thinking))
        parts.append(self._now(view))
        return "\n\n".join(parts)

    def continue_play(self, view: ContinueView) -> str:
        parts = []
        if view.previous is not None:
            parts.append(self.ended(view.previous))
        if view.last is None and not view.thinking:
            parts.append(f"Episode {view.episode + 1} of {view.frame.num_episodes} begins.")
        parts.append(self._now(view))
        return "\n\n".join(parts)

    def reflect(self, view: ReflectView) -> str:
        record, frame = view.record, view.frame
        skipped = len(record.turns) - len(view.shown)
        return (
            f"# Task\n{self.setting(frame)}\n\n# How episode {record.index + 1} began\n{record.first_observation}\n\n"
            f"# Episode {record.index + 1} of {frame.num_episodes}, which is over\n{_transcript(view.shown, skipped)}\n"
            f"It ended with:\n{self.ended(record)}\n\n{self._reflect_request(view)}"
        )

    def continue_reflect(self, view: ReflectView) -> str:
        return f"{self.ended(view.record)}\n\n{self._reflect_request(view)}"

    def remember_reflection(self, episode: int, text: str) -> str:
        return f"Your remark after episode {episode + 1}: {text}"

    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        skipped = len(record.turns) - len(shown)
        return f"Episode {record.index + 1}:\n{_transcript(shown, skipped)}\nIt ended with:\n{self.ended(record)}"

    def ask_belief(self, view: BeliefView) -> str:
        parts = [] if view.continues else [f"# Task\n{self.setting(view.frame)}"]
        if view.previous is not None:
            parts.append(self.ended(view.previous))
        if view.memory:
            parts.append(f"# {view.heading or _KNOWN}\n{view.memory}")
        listed = "\n".join(f"{number}. {name}" for number, name in enumerate(view.names, start=1))
        predicate = "is true in all episodes" if view.frame.spec.series else "is your opponent"
        tag = self.belief_tag
        if view.one_name:
            question = f"Which of these {predicate}?"
            answer = f"one number inside tags, like this: <{tag}>1</{tag}>"
        else:
            question = f"How likely is it that each of these {predicate}?"
            answer = (
                "their probabilities as one line of JSON inside tags. They add up to 1, and a number that is left out "
                f'has probability 0. Like this: <{tag}>{{"1": 0.7, "2": 0.3}}</{tag}>'
            )
        parts.append(
            f"# Question\nEpisode {view.episode} of {view.frame.num_episodes} is over. {question}\n"
            f"{listed}\n\nThink first if you like. End your reply with {answer}"
        )
        return "\n\n".join(parts)

    def _turns(self, view: PlayView) -> str:
        first_full = len(view.turns) - view.full_turns
        lines = [f"({view.omitted} earlier turns are not shown.)"] if view.omitted else []
        for index, record in enumerate(view.turns):
            number = view.omitted + index + 1
            observation_text = f" You saw:\n{record.observation}\n" if index >= first_full else " "
            thought = f"You thought: {view.thoughts[index]}\n" if view.thoughts and view.thoughts[index] else ""
            # A full turn needs no result: the next observation begins with it.
            result_text = f" That hand ended: {record.result}" if record.result and index < first_full else ""
            lines.append(f"Turn {number}.{observation_text}{thought}You answered: {answer_text(record)}{result_text}")
        return "\n".join(lines)

    @staticmethod
    def _answer_request(view: PlayView | ContinueView) -> str:
        return (
            f"{view.instruction or 'Think first if you like.'} End your reply with one action inside tags, like this: "
            "<action>your action</action>"
        )
