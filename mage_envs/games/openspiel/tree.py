"""How all chance of a hand of a small game may fall, for exact analysis: drawn at the root, before any move.

That is the same game, because nobody sees a chance event before it happens, as long as the odds of an event do not
hang on what the players did; games in which they do are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mage_envs.core import NotEnumerable
from mage_envs.games.openspiel.loading import load
from mage_envs.games.openspiel.size import SMALL, is_small

Fall = tuple[int, ...]
"""The outcomes of a hand's chance events, in their order."""
Odds = tuple[tuple[int, float], ...]
"""The outcomes of one chance event with their probabilities."""


class TooLarge(NotEnumerable):
    """A game whose tree is not at hand; the message says why."""


def falls(game: str) -> Sequence[tuple[float, Fall]]:
    """Every way in which chance may fall, with its probability; found once (Leduc: 0.1 s).

    Raises TooLarge, at once for a large game: one whose histories, or positions below all these ways, exceed `SMALL`.
    """
    found = _falls_or_reason(game)
    if isinstance(found, str):
        raise TooLarge(found)
    return found


@lru_cache(maxsize=64)
def _falls_or_reason(game: str) -> Sequence[tuple[float, Fall]] | str:
    too_many = f"{game} has more than {SMALL:,} histories: no exact values, and no solver, for it."
    if not is_small(game):
        return too_many
    count = 0
    events: dict[Fall, Odds] = {}
    nodes: dict[Fall, int] = {}
    """By the outcomes so far, the positions without chance."""
    stack: list[tuple[Any, Fall]] = [(load(game).new_initial_state(), ())]
    while stack:
        state, seen = stack.pop()
        count += 1
        if count > SMALL:
            return too_many
        if not state.is_chance_node():
            nodes[seen] = nodes.get(seen, 0) + 1
            stack.extend((state.child(action), seen) for action in state.legal_actions())
            continue
        odds = tuple(state.chance_outcomes())
        if events.setdefault(seen, odds) != odds:
            return f"In {game} the odds of chance hang on what the players do: no exact values for it."
        stack.extend((state.child(outcome), (*seen, outcome)) for outcome, chance in odds if chance > 0)
    found = tuple(_all_falls(events, ()))
    if sum(nodes.get(fall[:length], 0) for _, fall in found for length in range(len(fall) + 1)) > SMALL:
        return f"{game} has more than {SMALL:,} positions when all chance is drawn first: no exact values."
    return found


def _all_falls(events: dict[Fall, Odds], before: Fall) -> Iterator[tuple[float, Fall]]:
    if before not in events:
        yield 1.0, before
        return
    for outcome, chance in events[before]:
        if chance > 0:
            for odds, fall in _all_falls(events, (*before, outcome)):
                yield chance * odds, fall
