"""All chance outcomes of a hand of a small game, drawn at the root before any move, for exact analysis.

The game with chance at the root is equivalent, because no player sees a chance event before it happens. This requires
that the probabilities of an event do not depend on the players' actions. Other games are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mage_envs.core import NotEnumerable
from mage_envs.games.openspiel.loading import load
from mage_envs.games.openspiel.size import SMALL, is_small

Fall = tuple[int, ...]
"""Outcomes of the chance events of a hand, in order."""
Odds = tuple[tuple[int, float], ...]
"""Outcomes of one chance event with their probabilities."""


class TooLarge(NotEnumerable):
    """A game whose tree cannot be enumerated. The message states the reason."""


def falls(game: str) -> Sequence[tuple[float, Fall]]:
    """Return every combination of chance outcomes with its probability. The result is cached (Leduc: 0.1 s).

    Raises TooLarge if the histories of the game, or its positions with chance at the root, exceed `SMALL`. An
    estimate rejects a large game at once.
    """
    result = _falls_or_reason(game)
    if isinstance(result, str):
        raise TooLarge(result)
    return result


# `lru_cache` does not store exceptions, so the reason is returned as a string and `falls` raises it.
@lru_cache(maxsize=64)
def _falls_or_reason(game: str) -> Sequence[tuple[float, Fall]] | str:
    too_many = f"{game} has more than {SMALL:,} histories: no exact values, and no solver, for it."
    if not is_small(game):
        return too_many
    count = 0
    events: dict[Fall, Odds] = {}
    # Number of positions without a chance event, by the chance outcomes so far.
    nodes: dict[Fall, int] = {}
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
        # The same earlier outcomes must lead to the same event, for all actions of the players.
        odds = tuple(state.chance_outcomes())
        if events.setdefault(seen, odds) != odds:
            return f"In {game} the odds of chance depend on the players' actions: no exact values for it."
        stack.extend((state.child(outcome), (*seen, outcome)) for outcome, chance in odds if chance > 0)
    # With chance at the root, each combination of outcomes repeats the positions of all its prefixes.
    falls = tuple(_all_falls(events, ()))
    if sum(nodes.get(fall[:length], 0) for _, fall in falls for length in range(len(fall) + 1)) > SMALL:
        return f"{game} has more than {SMALL:,} positions when all chance is drawn first: no exact values."
    return falls


def _all_falls(events: dict[Fall, Odds], before: Fall) -> Iterator[tuple[float, Fall]]:
    if before not in events:
        yield 1.0, before
        return
    for outcome, chance in events[before]:
        if chance > 0:
            for odds, fall in _all_falls(events, (*before, outcome)):
                yield chance * odds, fall
