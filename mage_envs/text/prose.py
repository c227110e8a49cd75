"""`Prose`: the first default style, byte for byte, so that runs and models that recorded its name play it again."""

from __future__ import annotations

from mage_envs.core import DRAW, FAILURE, SUCCESS
from mage_envs.text.prompts import ContinueView, EpisodeRecord, Frame, PlayView, ReflectView, Sentences

_VERDICTS = {SUCCESS: "a success", FAILURE: "a failure", DRAW: "neither a success nor a failure"}
_SAME_OPPONENT = "whoever plays against you, and how, stays the same throughout"


def outcome_text(record: EpisodeRecord) -> str:
    """Return the result of an episode in one sentence."""
    verdict = "out of turns, a failure" if record.timeout else _VERDICTS[record.ended_as]
    if not record.shows_score:
        return f"Result: {verdict}."
    return f"Result: {verdict}; in total {record.value:+g} ({record.unit})."


def format_end(record: EpisodeRecord) -> str:
    """Return the last observation of an episode and its result."""
    return f"{record.outcome}\n{outcome_text(record)}"


class Prose(Sentences):
    """Style with the words of the first version. Requests state only the rules, and a timeout hides the last state."""

    def setting(self, frame: Frame) -> str:
        return frame.spec.rules

    def ended(self, record: EpisodeRecord) -> str:
        return format_end(record)

    def _task(self, view: PlayView) -> str:
        return f"{view.frame.spec.rules}{self._series(view)}{self._limits(view)}"

    @staticmethod
    def _series(view: PlayView) -> str:
        frame = view.frame
        if frame.num_episodes == 1:
            return ""
        prefix = "up to " if frame.may_stop_early else ""
        same = "each starts from the same task" if frame.single_player else _SAME_OPPONENT
        same = f". {frame.spec.stays}" if frame.spec.stays else f" in the same setting: {same}."
        return (
            f" You play {prefix}{frame.num_episodes} episodes{same} "
            f"This is episode {view.episode + 1} of {frame.num_episodes}."
        )

    @staticmethod
    def _limits(view: PlayView) -> str:
        frame = view.frame
        unit = "episode" if frame.hands == 1 else "hand"
        hands = "" if frame.hands == 1 else f" An episode has {frame.hands} hands; this is hand {view.hand + 1}."
        if not frame.max_turns:
            return hands
        return (
            f"{hands} You may give at most {frame.max_turns} answers per {unit}; running out of them loses the episode."
        )

    def _now(self, view: PlayView | ContinueView) -> str:
        notice = "Noted; nothing has changed, and no turn is spent.\n\n" if view.thinking else ""
        # If the answer ended the hand, the result in the observation explains it already.
        if not view.thinking and view.last is not None and not view.last.legal and not view.last.result:
            fault = "held no action inside the tags" if view.last.action is None else "was not a legal action"
            notice = f"Your last answer {fault}; nothing happened, but the turn is spent.\n\n"
        legal = f"\nLegal actions: {' | '.join(view.turn.legal_actions)}" if view.turn.legal_actions else ""
        return f"# Now\n{notice}{view.observation}{legal}\n\n{self._answer_request(view)}"

    def _reflect_request(self, view: ReflectView) -> str:
        about = "the setting" if view.frame.single_player else "the setting and about whoever you face"
        return (
            f"Another episode in the same setting follows. Say what this one shows about {about}, what went wrong or "
            "right, and how you will play next. End your reply with that plan inside "
            "tags, like this: <remark>your plan</remark>"
        )
