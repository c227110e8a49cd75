"""The content of a prompt (the views), the interface of a prompt style, and the parts of a prompt in full sentences.

`mage_envs.text.plain` has the default wording, `mage_envs.text.styles` the list of all styles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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


VERDICTS = {SUCCESS: "a success", FAILURE: "a failure", DRAW: "a draw"}
"""Outcome of an episode to its words."""


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

    def spell_actions(self, turn: Turn) -> Mapping[str, str]:
        """Return the actions among which a constrained model chooses, with the words of each; empty for their own."""
        return {}

    def setting(self, frame: Frame) -> str:
        """Return the rules, and if `states_setting` also what repeats, what is new, and the limits."""
        return frame.spec.rules

    def verdict(self, record: EpisodeRecord) -> str:
        """Return how an episode ended, without a full stop: `a failure; in total -1 chips`."""
        return f"{record.value:+g} {record.unit}" if record.shows_score else record.ended_as

    def ended(self, record: EpisodeRecord) -> str:
        """Return the last state of an episode and how it ended."""
        verdict = "out of turns, a failure" if record.timeout else VERDICTS[record.ended_as]
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
