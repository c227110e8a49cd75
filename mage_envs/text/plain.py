"""`Plain`, the default style: every request states the setting, the limits and what the last answer was read as."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from mage_envs.core import BY_FORFEIT, GameSpec, HandResult
from mage_envs.text.parser import LENGTH, NO_TEXT
from mage_envs.text.prompts import (
    VERDICTS,
    BeliefView,
    ContinueView,
    EpisodeRecord,
    Frame,
    PlayView,
    PromptStyle,
    ReflectView,
    TurnRecord,
    answer_text,
)

_KNOWN = "What you know from earlier episodes"
_QUOTED = 60
"""Maximum characters of an answer that the feedback quotes."""
_FEW_ACTIONS = 6
"""Maximum number of actions of a game that the style `paper` names once, as rules."""

MAX_CHARACTERS = 200
"""Characters of an answer that are compared with actions. A long answer would make the comparison slow."""
_NUMBER = re.compile(r"(?<!\d)-?\d{1,9}")
_SEAT = re.compile(r"\b([Pp])layer ([01])\b")
_NO_LETTERS = re.compile(r"[\W\d_]+")


def nearest_action(answer: str, legal_actions: Sequence[str]) -> str:
    """Return the legal action with the most similar words and, if they are equal, the nearest numbers."""
    words, numbers = _parts(answer[:MAX_CHARACTERS])

    def distance(action: str) -> tuple[float, float]:
        other_words, other_numbers = _parts(action)
        gap = float("inf")
        if len(numbers) == len(other_numbers):
            gap = sum(abs(number - other_number) for number, other_number in zip(numbers, other_numbers, strict=True))
        return -SequenceMatcher(None, words, other_words).ratio(), gap

    return min(legal_actions, key=distance, default="")


def _parts(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text as words, and its whole numbers."""
    return _NO_LETTERS.sub(" ", text.lower()).strip(), [int(number) for number in _NUMBER.findall(text)]


@lru_cache(maxsize=4096)
def amount(value: float, unit: str) -> str:
    """Return a return with its unit in words: `-1 chips`, `1 point per round`, `a score of 0.0833`."""
    # Three digits, and no "-0" for a sum with a rounding error.
    number = f"{round(value, 9) + 0.0:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    noun, blank, qualifier = unit.partition(" ")
    if not noun.endswith("s"):
        return f"a {unit} of {number}"
    if number == "1":
        noun = noun.removesuffix("es") if noun.endswith("ches") else noun.removesuffix("s")
    return f"{number} {noun}{blank}{qualifier}"


def last_state(record: EpisodeRecord) -> str:
    """Return the last observation of an episode, with the state in place of the notice that its answers ran out."""
    end = record.hands[-1] if record.hands else None
    if end is None or not end.last_state:
        return record.outcome
    # Hands that ended earlier in the same step come first in the last observation.
    return record.outcome.removesuffix(end.observation) + _last_state(end)


def _last_state(end: HandResult) -> str:
    """Return the last state of a hand that the rules did not end. The verdict states that the answers ran out."""
    return f"{end.last_state}\n{end.observation}" if end.ended_by == BY_FORFEIT else end.last_state


def read_as(record: TurnRecord) -> str:
    """Return what was read from an invalid reply, as the start of a sentence."""
    if record.action is not None:
        # Imported here, because most answers are valid.
        from mage_envs.text.visible import one_line

        read = one_line(record.action)
        return f'Your last answer was "{read if len(read) <= _QUOTED else read[: _QUOTED - 3] + "..."}"'
    if record.reason == LENGTH:
        return "Your last reply was cut at its limit, before an action inside the tags"
    return f"Your last reply held {'no text' if record.reason in NO_TEXT else 'no action inside the tags'}"


def _transcript(turns: Sequence[TurnRecord], skipped: int = 0) -> str:
    lines = [f"({skipped} earlier turns are not shown.)"] if skipped > 0 else []
    for number, record in enumerate(turns, start=skipped + 1):
        lines.append(f"Turn {number}. You saw:\n{record.observation}\nYou answered: {answer_text(record)}")
    return "\n".join(lines)


class Plain(PromptStyle):
    """Default style: full sentences, answers in `<action>` and `<remark>` tags."""

    action_tag = "action"
    remark_tag = "remark"
    belief_tag = "type"
    states_setting = True

    def __init__(self) -> None:
        self._framed: tuple[Frame, str] | None = None

    # -- the setting and the end of an episode, for every memory ---------------------------------------------

    def setting(self, frame: Frame) -> str:
        # A meta-episode has one frame, and each of its prompts states it.
        if self._framed is None or self._framed[0] is not frame:
            self._framed = frame, f"{self._rules(frame.spec)}{_series(frame)}{_limits(frame)}"
        return self._framed[1]

    def verdict(self, record: EpisodeRecord) -> str:
        verdict = VERDICTS[record.ended_as]
        if record.timeout:
            verdict += ", because the answers ran out"
        return f"{verdict}; in total {amount(record.value, record.unit)}" if record.shows_score else verdict

    def ended(self, record: EpisodeRecord) -> str:
        return f"{last_state(record)}\nResult: {self.verdict(record)}."

    # -- prompts --------------------------------------------------------------------------------------------

    def play(self, view: PlayView) -> str:
        parts = [f"# Task\n{self.setting(view.frame)}"]
        # The window shows the first observation itself if it holds all turns with their observations.
        if view.omitted or len(view.turns) > view.full_turns:
            parts.append(f"# How this episode began\n{view.first_observation}")
        if view.memory:
            parts.append(f"# {view.heading or _KNOWN}\n{view.memory}")
        if view.turns:
            parts.append(f"# This episode so far\n{(_tries if view.frame.tries else _turns)(view)}")
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

    def _rules(self, spec: GameSpec) -> str:
        # Rules may number the two seats, as OpenSpiel does, but prompts name them.
        return _SEAT.sub(_seat_name, spec.rules) if spec.players == 2 else spec.rules

    def _legal(self, spec: GameSpec, legal_actions: tuple[str, ...]) -> str:
        """Return the line with the legal actions, or an empty string if the style hides them."""
        note = f" ({spec.legal_note})" if spec.legal_note else ""
        return f"\nLegal actions{note}: {' | '.join(legal_actions)}"

    def _nearest(self, spec: GameSpec, record: TurnRecord) -> str:
        """Return the legal form nearest to an invalid answer, or an empty string."""
        legal, read = record.turn.legal_actions, record.action or ""
        # An action of the game that is not legal now has the right form, and another move is no correction of it.
        is_known = spec.actions is not None and read.strip().lower() in spec.actions
        return (spec.nearest or nearest_action)(read, legal) if read and legal and not is_known else ""

    def feedback(self, frame: Frame, record: TurnRecord) -> str:
        """Return what was read from an invalid answer, its nearest legal form, and what happened."""
        text = read_as(record)
        if record.action is not None:
            text += ", which is not a legal action here"
        if nearest := self._nearest(frame.spec, record):
            text += f". The nearest legal action is: {nearest}"
        # A forfeit is stated by the result of its hand, with which the observation begins.
        if record.ended:
            return f"{text}."
        return f"{text}. Nothing happened{'' if frame.tries else ', but the answer counts'}."

    def _now(self, view: PlayView | ContinueView) -> str:
        frame, last_record = view.frame, view.last
        notice = ""
        if view.thinking:
            notice = " Your thought was noted; nothing has changed, and no answer is spent."
        elif (
            last_record is not None
            and not last_record.legal
            and (last_record.ended is None or last_record.ended.ended_by == BY_FORFEIT)
        ):
            notice = f"\n{self.feedback(frame, last_record)}"
        legal = self._legal(frame.spec, view.turn.legal_actions) if view.turn.legal_actions else ""
        return f"# Now\n{_place(view)}{notice}\n\n{view.observation}{legal}\n\n{self._answer_request(view)}"

    @staticmethod
    def _answer_request(view: PlayView | ContinueView) -> str:
        return (
            f"{view.instruction or 'Think first if you like.'} End your reply with one action inside tags, like this: "
            "<action>your action</action>"
        )

    def _reflect_request(self, view: ReflectView) -> str:
        about = "the task" if view.frame.single_player else "your opponent"
        return (
            f"Say what this episode shows about {about}, what went wrong or right, and how you will play the next "
            "one. End your reply with that plan inside tags, like this: <remark>your plan</remark>"
        )


class Paper(Plain):
    """Style without the list of legal actions in the games whose prompts in the paper have none."""

    def _rules(self, spec: GameSpec) -> str:
        hidden, rules = not spec.lists_actions_in_paper, super()._rules(spec)
        if hidden and spec.actions is not None and len(spec.actions) <= _FEW_ACTIONS:
            return f"{rules} An action is one of: {', '.join(spec.actions)}."
        return rules

    def _legal(self, spec: GameSpec, legal_actions: tuple[str, ...]) -> str:
        return super()._legal(spec, legal_actions) if spec.lists_actions_in_paper else ""

    def _nearest(self, spec: GameSpec, record: TurnRecord) -> str:
        return super()._nearest(spec, record) if spec.lists_actions_in_paper else ""


def _seat_name(match: re.Match[str]) -> str:
    """Return the name of a numbered seat, with a capital letter if the number had one."""
    article, ordinal = "The" if match[1] == "P" else "the", "first" if match[2] == "0" else "second"
    return f"{article} {ordinal} player"


def _series(frame: Frame) -> str:
    """Return the sentences on what repeats in the episodes, and what is new."""
    if frame.num_episodes == 1:
        return ""
    prefix = "up to " if frame.may_stop_early else ""
    stop = " Your first success ends the series." if frame.may_stop_early else ""
    if frame.spec.stays:
        return f" You play {prefix}{frame.num_episodes} episodes. {frame.spec.stays}{stop}"
    if frame.single_player:
        return (
            f" You play {prefix}{frame.num_episodes} episodes of the same task: each starts in the same state, and "
            f"nothing else is new.{stop}"
        )
    others = "opponent" if frame.spec.players == 2 else f"{frame.spec.players - 1} opponents"
    chance = "repeats in each episode" if frame.replays else "is drawn anew in each episode"
    seats = {None: "", True: ", and your seat changes from hand to hand", False: ", and your seat stays the same"}
    return (
        f" You play {prefix}{frame.num_episodes} episodes against the same {others}, with the same way of playing "
        f"throughout. Chance, if the game has any, {chance}{seats[frame.seats_change]}.{stop}"
    )


def _limits(frame: Frame) -> str:
    if frame.tries:
        return (
            f" You have {frame.tries} tries per turn. If none of them is a legal action, a random legal action is "
            "played for you."
        )
    hands = "" if frame.hands == 1 else f" An episode has {frame.hands} hands."
    if not frame.max_turns:
        return hands
    per = "episode" if frame.hands == 1 else "hand"
    return (
        f"{hands} You may give at most {frame.max_turns} answers per {per}, and an invalid answer counts, too; if they "
        "run out, the episode is lost."
    )


def _place(view: PlayView | ContinueView) -> str:
    """Return the number of the episode, of the hand and of the answer."""
    frame = view.frame
    if frame.tries:
        return f"Your turn. Try {view.answer} of {frame.tries}."
    # One expression per case and no lists, because every play prompt states its place.
    answer = f"Answer {view.answer} of {frame.max_turns}." if frame.max_turns else "Your turn."
    if frame.hands == 1:
        if frame.num_episodes == 1:
            return answer
        return f"Episode {view.episode + 1} of {frame.num_episodes}. {answer}"
    episode = f"Episode {view.episode + 1} of {frame.num_episodes}. " if frame.num_episodes > 1 else ""
    return f"{episode}Hand {view.hand + 1} of {frame.hands}. {answer}"


def _turns(view: PlayView) -> str:
    """Return the turns of the learner's episode so far."""
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


def _tries(view: PlayView) -> str:
    """Return the tries of an opponent. They have no numbers, because a turn may have several, or end by a draw."""
    first_full = len(view.turns) - view.full_turns
    lines = ["(Earlier answers are not shown.)"] if view.omitted else []
    for index, record in enumerate(view.turns):
        observation_text = f"You saw:\n{record.observation}\n" if index >= first_full else ""
        answer = f"A random legal action was played for you: {record.action}"
        lines.append(observation_text + (answer if record.drawn else f"You answered: {answer_text(record)}"))
    return "\n".join(lines)
