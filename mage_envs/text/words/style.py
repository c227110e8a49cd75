"""`Words`: a game in few words, for models far too small for prose. Answers are bare actions.

Of a game with a fixed set of actions it shows the seat, the player's knowledge at the start of a hand, its new
knowledge since each answer, and the return of each hand: exactly the facts of the raw observations. Of a game of texts
or boards (`GameSpec.observation_words`) it shows the words of each observation, and the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from mage_envs.core import BY_THE_RULES, BY_TIMEOUT, GameSpec, Turn, episode_outcome
from mage_envs.text.prompts import BLOCK, ContinueView, EpisodeRecord, PlayView, PromptStyle, ReflectView, TurnRecord
from mage_envs.text.words.spelling import WordsOfState, as_word, text_words

EPISODE, REFLECT, REMARK, ILLEGAL, TIMEOUT, UNREADABLE = "episode", "reflect", "remark", "illegal", "timeout", "?"
MAX_CACHED_TEXTS = 50_000
"""Size of the caches of words. Small games have fewer information states, and groups meet the same ones repeatedly."""
SEATS = ("first", "second", "third", "fourth")


def seat_word(seat: int) -> str:
    """Return the word for a seat."""
    return SEATS[seat] if seat < len(SEATS) else f"player-{seat + 1}"


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def _first_words(words_of: WordsOfState, state: str, seat: int) -> tuple[str, ...]:
    """Return the words of a player's knowledge at its first decision in a hand."""
    return seat_word(seat), *words_of(state, seat)


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def _new_words(
    words_of: WordsOfState, previous_state: str, answer: str | None, state: str, seat: int
) -> tuple[str, ...]:
    """Return the words of the player's new knowledge in `state` since `previous_state`, without its legal answer."""
    # A word may occur several times (two rounds with the same move), so known words are counted.
    known_words = Counter(words_of(previous_state, seat))
    if answer is not None:
        known_words[as_word(answer)] += 1
    words = []
    for word in words_of(state, seat):
        if known_words[word] > 0:
            known_words[word] -= 1
        else:
            words.append(word)
    return tuple(words)


def return_word(value: float) -> str:
    """Return the word for a hand's return in the game's unit: `+2`, `-0.5`, `+0`."""
    return f"{value:+.4g}"


class Words(PromptStyle):
    """The compact prompt style; see the module's docstring. `GameSpec.words` maps the game's states to words."""

    def __init__(self, spec: GameSpec) -> None:
        """Create the style for a game. Raises ValueError if it has neither a fixed set of actions nor words."""
        if spec.actions is None and spec.observation_words is None:
            raise ValueError(
                f"style='words' needs a fixed set of actions, which {spec.name} has not (GameSpec.actions), or words "
                "of its observations (GameSpec.observation_words); use style='plain'."
            )
        # Each observation is shown whole, or what is new in each information state.
        self._whole = spec.observation_words is not None
        self._words_of = spec.words if spec.observation_words is None else spec.observation_words.read
        self._spell = None if spec.observation_words is None else spec.observation_words.spell
        self._actions = frozenset(spec.actions or ())

    def play(self, view: PlayView) -> str:
        memory = view.memory.split(BLOCK) if view.memory else []
        return " ".join([*memory, EPISODE, str(view.episode + 1), *self._turns(view.turns), *self._now(view)])

    def continue_play(self, view: ContinueView) -> str:
        if view.last is not None:
            words = self._result_words(view.last)
        else:
            end_words = self._result_words(view.previous.turns[-1]) if view.previous and view.previous.turns else []
            words = [*end_words, EPISODE, str(view.episode + 1)]
        return " ".join([*words, *self._now(view)])

    def reflect(self, view: ReflectView) -> str:
        return " ".join([EPISODE, str(view.record.index + 1), *self._turns(view.shown), REFLECT])

    def continue_reflect(self, view: ReflectView) -> str:
        last_record = view.record.turns[-1] if view.record.turns else None
        return " ".join([*(self._result_words(last_record) if last_record else ()), REFLECT])

    def spell_actions(self, turn: Turn) -> Mapping[str, str]:
        return {} if self._spell is None else self._spell(turn.observation, turn.legal_actions)

    def remember_reflection(self, episode: int, text: str) -> str:
        return f"{REMARK} {text}"

    def remember_episode(self, record: EpisodeRecord, shown: Sequence[TurnRecord]) -> str:
        return " ".join([EPISODE, str(record.index + 1), *self._turns(shown)])

    def _turns(self, turns: Sequence[TurnRecord]) -> list[str]:
        words: list[str] = []
        previous_record: TurnRecord | None = None
        for record in turns:
            state, seat = record.turn.information_state, record.turn.player
            same = previous_record is not None and previous_record.hand == record.hand
            if self._whole:
                words += self._words_of(record.turn.observation, seat)
            elif previous_record is not None and same:
                words += self._since(previous_record, state)
            else:
                words += self._start(state, seat)
            words.append(self._answer(record))
            words += self._result_words(record)
            previous_record = record
        return words

    def _answer(self, record: TurnRecord) -> str:
        """Return the word for an answer, or the words of a legal one if the game has no fixed set of actions."""
        if record.action is not None and self._spell is not None:
            return self.spell_actions(record.turn).get(record.action, UNREADABLE)
        if record.action is not None and record.legal and not self._actions:
            return " ".join(text_words(record.action, record.turn.player))
        return record.action if record.action in self._actions else UNREADABLE

    def _now(self, view: PlayView | ContinueView) -> tuple[str, ...]:
        last_record, turn = view.last, view.turn
        if self._whole:
            return tuple(self._words_of(turn.observation, turn.player))
        if last_record is None or last_record.ended is not None:
            return self._start(turn.information_state, turn.player)
        return self._since(last_record, turn.information_state)

    def _start(self, state: str, seat: int) -> tuple[str, ...]:
        return _first_words(self._words_of, state, seat)

    def _since(self, record: TurnRecord, state: str) -> tuple[str, ...]:
        answer = record.action if record.legal else None
        return _new_words(self._words_of, record.turn.information_state, answer, state, record.turn.player)

    def _result_words(self, record: TurnRecord) -> list[str]:
        """Return the words for the result of an answer: its illegality, and the end of the hand if it ended."""
        words = [] if record.legal else [ILLEGAL]
        result = record.ended
        if result is None:
            return words
        if result.ended_by == BY_TIMEOUT:
            return [*words, TIMEOUT]
        if self._whole:
            # Returns such as 9.7 would each be a word that hardly occurs again.
            return [*words, *self._words_of(result.observation, record.turn.player), episode_outcome([result])]
        if result.ended_by == BY_THE_RULES:
            words += self._since(record, result.information_state)
        return [*words, return_word(result.value)]
