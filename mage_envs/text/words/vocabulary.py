"""The words that the style `words` may show for a game, from the game's own tree or from random play."""

from __future__ import annotations

from collections.abc import Iterator

from mage_envs.core import DRAW, FAILURE, SUCCESS, Game, NotEnumerable, State
from mage_envs.random.streams import GAME, SEATS, Streams
from mage_envs.text.words.spelling import text_words
from mage_envs.text.words.style import EPISODE, ILLEGAL, REFLECT, REMARK, TIMEOUT, UNREADABLE, return_word, seat_word

WALKED = 30_000
"""Limit of positions for the walk of a tree. A larger game is sampled."""
SAMPLED, SAMPLED_TEXTS = 1_000, 100
"""Hands of random play in a sample: of information states, and of observations, which are long texts."""
EPISODES = 10
"""Number of episodes whose number is a word of the vocabulary."""
_REMARKS = "opponent own often rarely always never more less weak strong first last same so then change"


def vocabulary(game: Game) -> tuple[str, ...]:
    """Return the words of the game's prompts and answers, the same at each call. Actions keep their blanks.

    The words are complete if the game lists them (`ObservationWords.vocabulary`) or if the tree is walked. If the game
    has more than `WALKED` positions or cannot be enumerated, they are those of random play, and other words are unknown
    to a tokenizer made of these. Raises ValueError if the game has neither a fixed set of actions nor words of its
    observations.
    """
    spec = game.spec
    shown = spec.observation_words
    if spec.actions is None and shown is None:
        raise ValueError(f"{spec.name} has no fixed set of actions (GameSpec.actions), so no vocabulary of its own.")
    seats = range(spec.players)
    if shown is not None and shown.vocabulary:
        observed = list(shown.vocabulary)
    else:
        try:
            observed = _collect_words(game, _walk(game))
        except NotEnumerable:
            observed = _collect_words(game, _sample(game))
    fixed = [EPISODE, *(str(number) for number in range(1, EPISODES + 1)), *(seat_word(seat) for seat in seats)]
    outcomes = [] if shown is None else [SUCCESS, FAILURE, DRAW]
    ends = [return_word(spec.min_return), *outcomes, ILLEGAL, TIMEOUT, UNREADABLE, REFLECT, REMARK]
    # Removes duplicates but keeps the order, so that a tokenizer's ids do not depend on the hashes of a set.
    return tuple(dict.fromkeys([*fixed, *(spec.actions or ()), *observed, *ends, *_REMARKS.split()]))


def _collect_words(game: Game, states: Iterator[State]) -> list[str]:
    """Return the words of these states for all seats, sorted."""
    shown, seats = game.spec.observation_words, range(game.spec.players)
    words: set[str] = set()
    for state in states:
        for seat in seats:
            if shown is None:
                words.update(game.spec.words(state.information_state(seat), seat))
            else:
                words.update(shown.read(state.observation(seat), seat))
        if game.spec.actions is None:
            words.update(word for action in state.legal_actions for word in text_words(action, 0))
        if state.player is None and shown is None:
            words.update(return_word(value) for value in state.returns)
    return sorted(words)


def _walk(game: Game) -> Iterator[State]:
    """Yield every position, shared ones once. Raises `NotEnumerable` if the tree has more than `WALKED` positions."""
    waiting = [state for _, state in game.initial_states()]
    # The values keep the states alive. Otherwise a new state could get the id of a freed one.
    walked: dict[int, State] = {}
    while waiting:
        state = waiting.pop()
        if id(state) in walked:
            continue
        if len(walked) == WALKED:
            raise NotEnumerable(f"{game.spec.name} has more than {WALKED:,} positions.")
        walked[id(state)] = state
        yield state
        waiting += [state.after(action) for action in state.legal_actions]


def _sample(game: Game) -> Iterator[State]:
    """Yield the positions of hands of random play, from a fixed seed."""
    streams = Streams(0)
    for hand in range(SAMPLED if game.spec.observation_words is None else SAMPLED_TEXTS):
        state = game.initial_state(streams.at(GAME, 0, hand).generator())
        draws = streams.at(SEATS, 0, hand)
        yield state
        # A game of one player may go on for ever.
        for _ in range(game.spec.max_turns * game.spec.players):
            if not state.legal_actions:
                break
            state = state.after(state.legal_actions[int(draws.random() * len(state.legal_actions))])
            yield state
