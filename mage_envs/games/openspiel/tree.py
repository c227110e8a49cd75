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

ChanceOutcomes = tuple[int, ...]
"""Outcomes of the chance events of a hand, in order."""
OutcomeProbabilities = tuple[tuple[int, float], ...]
"""Outcomes of one chance event with their probabilities."""


class TooLarge(NotEnumerable):
    """A game whose tree cannot be enumerated. The message states the reason."""


def chance_outcomes(game: str) -> Sequence[tuple[float, ChanceOutcomes]]:
    """Return every combination of chance outcomes with its probability. The result is cached (Leduc: 0.1 s).

    Raises TooLarge if the histories of the game, or its positions with chance at the root, exceed `SMALL`. An
    estimate rejects a large game at once.
    """
    result = _outcomes_or_reason(game)
    if isinstance(result, str):
        raise TooLarge(result)
    return result


# `lru_cache` does not store exceptions, so the reason is returned as a string and `chance_outcomes` raises it.
@lru_cache(maxsize=64)
def _outcomes_or_reason(game: str) -> Sequence[tuple[float, ChanceOutcomes]] | str:
    too_many = f"{game} has more than {SMALL:,} histories: no exact values, and no solver, for it."
    if not is_small(game):
        return too_many
    count = 0
    events: dict[ChanceOutcomes, OutcomeProbabilities] = {}
    # Number of positions without a chance event, by the chance outcomes so far.
    nodes: dict[ChanceOutcomes, int] = {}
    stack: list[tuple[Any, ChanceOutcomes]] = [(load(game).new_initial_state(), ())]
    while stack:
        state, outcomes = stack.pop()
        count += 1
        if count > SMALL:
            return too_many
        if not state.is_chance_node():
            nodes[outcomes] = nodes.get(outcomes, 0) + 1
            stack.extend((state.child(action), outcomes) for action in state.legal_actions())
            continue
        # The same earlier outcomes must lead to the same event, for all actions of the players.
        probabilities = tuple(state.chance_outcomes())
        if events.setdefault(outcomes, probabilities) != probabilities:
            return f"In {game} the odds of chance depend on the players' actions: no exact values for it."
        stack.extend((state.child(outcome), (*outcomes, outcome)) for outcome, chance in probabilities if chance > 0)
    # With chance at the root, each combination of outcomes repeats the positions of all its prefixes.
    combinations = tuple(_enumerate_outcomes(events, ()))
    positions = sum(
        nodes.get(combination[:length], 0) for _, combination in combinations for length in range(len(combination) + 1)
    )
    if positions > SMALL:
        return f"{game} has more than {SMALL:,} positions when all chance is drawn first: no exact values."
    return combinations


def _enumerate_outcomes(
    events: dict[ChanceOutcomes, OutcomeProbabilities], prefix: ChanceOutcomes
) -> Iterator[tuple[float, ChanceOutcomes]]:
    if prefix not in events:
        yield 1.0, prefix
        return
    for outcome, chance in events[prefix]:
        if chance > 0:
            for probability, combination in _enumerate_outcomes(events, (*prefix, outcome)):
                yield chance * probability, combination
