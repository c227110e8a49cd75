"""`KuhnWords`: Kuhn Poker in a vocabulary of a few dozen words, for models far too small for prose.

It is made of information states and results alone, and carries the same facts as the raw observation and nothing more:
seat, card, what the opponent did, what a hand paid, and the opponent's card where the observation shows it. Answers are
bare words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mage_envs.core import BY_FORFEIT, BY_TIMEOUT
from mage_envs.games.kuhn_poker import MOVES, TO_ACT
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, ReflectView, TurnRecord

_REMARKS = (
    "opponent bets checks calls folds often rarely weak strong so bluff trap fold call bet check more less with J Q K"
)
REMARK_WORDS = tuple(_REMARKS.split())
"""Words that a tiny model may reflect with; it gives them their meaning itself."""
_WORDS = (
    "episode 1 2 3 4 5 6 7 8 9 10 first second J Q K check bet call fold opp-check opp-bet opp-call opp-fold "
    "win-1 win-2 lose-1 lose-2 shows ? illegal timeout reflect remark"
)
VOCABULARY = tuple(dict.fromkeys((*_WORDS.split(), *REMARK_WORDS)))
"""Every word that a prompt or an answer may hold."""


@cache
def _opponent_moves(state: str, seen: int, player: int) -> tuple[str, ...]:
    """The opponent's moves in information state `state` (card, then betting) after the first `seen` letters."""
    words = []
    betting = state[1:]
    for index in range(seen, len(betting)):
        before = betting[:index]
        if TO_ACT[before] != player:
            words.append(f"opp-{MOVES[before]['pb'.index(betting[index])]}")
    return tuple(words)


def _result(record: TurnRecord) -> tuple[str, ...]:
    """How the hand ended that this answer ended, and what the opponent still did in it."""
    ended = record.ended
    if ended is None:
        return ()
    if ended.ended_by == BY_TIMEOUT:
        return ("timeout",)
    paid = f"{'win' if ended.value > 0 else 'lose'}-{abs(ended.value):g}"
    if ended.ended_by == BY_FORFEIT:
        return (paid,)
    moves, _, shown = ended.information_state.partition("|")
    answered = len(record.turn.information_state)
    return (*_opponent_moves(moves, answered, record.turn.player), paid, *(("shows", shown) if shown else ()))


def _answered(record: TurnRecord) -> tuple[str, ...]:
    """What came of the answer that was just given."""
    return _result(record) if record.legal else ("illegal", *_result(record))


@cache
def _hand_start(state: str, player: int) -> tuple[str, ...]:
    return ("second" if player else "first", state[0], *_opponent_moves(state, 0, player))


def _record_words(record: TurnRecord, before: TurnRecord | None) -> list[str]:
    """One answer with what led to it since `before`, the answer before it in the same hand."""
    state, player = record.turn.information_state, record.turn.player
    words: list[str] = [] if before else ["second" if player else "first", state[0]]
    words += _opponent_moves(state, len(before.turn.information_state) - 1 if before else 0, player)
    words.append(record.action if record.action in ("check", "bet", "call", "fold") else "?")
    if not record.legal:
        words.append("illegal")
    return [*words, *_result(record)]


def _turns(turns: Sequence[TurnRecord]) -> list[str]:
    words: list[str] = []
    before: TurnRecord | None = None
    for record in turns:
        words += _record_words(record, before if before and before.hand == record.hand else None)
        before = record
    return words


class KuhnWords:
    """The compact prompt style of the demo; see the module's text. Plays Kuhn Poker only."""

    action_tag: str | None = None
    remark_tag: str | None = None

    def play(self, view: PlayView) -> str:
        memory = [view.memory] if view.memory else []
        return " ".join([*memory, "episode", str(view.episode + 1), *_turns(view.turns), *self._now(view)])

    def continue_play(self, view: ContinueView) -> str:
        last = view.last
        if last is not None:
            words = _answered(last)
        else:
            ended = _answered(view.previous.turns[-1]) if view.previous and view.previous.turns else ()
            words = (*ended, "episode", str(view.episode + 1))
        return " ".join((*words, *self._now(view)))

    @staticmethod
    def _now(view: PlayView | ContinueView) -> tuple[str, ...]:
        last, turn = view.last, view.turn
        if last is None or last.ended is not None:
            return _hand_start(turn.information_state, turn.player)
        return _opponent_moves(turn.information_state, len(last.turn.information_state) - 1, turn.player)

    def reflect(self, view: ReflectView) -> str:
        return " ".join(["episode", str(view.record.index + 1), *_turns(view.shown), "reflect"])

    def continue_reflect(self, view: ReflectView) -> str:
        last = view.record.turns[-1] if view.record.turns else None
        return " ".join([*(_result(last) if last else []), "reflect"])

    def remember_reflection(self, episode: int, text: str) -> str:
        return f"remark {text}"

    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        return " ".join(["episode", str(record.index + 1), *_turns(shown)])
