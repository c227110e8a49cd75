"""Regret of a meta-episode in parts that add up: inference, decision and exploration.

All values are those of the exact posterior over the pool. At each decision:

* regret: loss of the played action against the optimal play of the rest of the meta-episode;
* exploration: this regret less the regret by the rest of the hand alone;
* inference: loss, by the rest of the hand, of the best action if the opponent is the one that the player named;
* decision: the rest, that is, the loss of the played action against that best action. It is negative if the player
  played better than its own belief.

The player names one opponent between two episodes, and the answer counts for the whole next episode. Before its first
answer, and after moves in the same hand that the named opponent never makes, the posterior itself counts as its belief.
A named opponent says less than a posterior. `least` is the inference of the most likely opponent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opponents.exact.learner_hands import Floats
from opponents.exact.regret import DecisionValues, HandRegret, OwnChoice, PlayedHand

_TIE = 1e-9
"""Difference below which two actions are equally good under the player's belief."""


class OwnBelief(NamedTuple):
    """The player's belief in the hands of an episode."""

    opponent: int | None = None
    """Index in the pool, or None if no answer names an opponent."""
    asked: bool = True
    """False if the player has not been asked: then the posterior counts as its belief."""


class DecisionParts(NamedTuple):
    """Parts of the regret of one decision, or of an ending outside of the rules."""

    regret: float
    exploration: float
    inference: float | None
    """None if the player was asked and named no opponent, as `decision` and `least`."""
    decision: float | None
    least: float | None
    """Inference of the opponent that was most likely before the episode."""


def decompose(
    hand: DecisionValues, meta: DecisionValues, played: Sequence[PlayedHand], named: Sequence[OwnBelief]
) -> list[list[DecisionParts]]:
    """Return the parts of each decision of a finished meta-episode, one list per hand.

    A hand that ended outside of the rules has one more entry.

    Args:
        hand: Values of decisions by the rest of the hand, of the game and the pool of `meta`.
        meta: Values of decisions by the rest of the meta-episode, with the credit `sum`.
        played: Hands in the order of play.
        named: Belief in each hand.

    Raises ValueError and TooManyStates as `DecisionValues.judge`.
    """
    found, episode, likely = list[list[DecisionParts]](), -1, 0
    for one, alone, whole, own in zip(played, hand.judge(played), meta.judge(played), named, strict=True):
        before = np.array(alone.before)
        if one.episode != episode:
            # A series has several entries per opponent, one for each order of its tasks.
            episode, likely = one.episode, int(before.reshape(meta.opponents, -1).sum(axis=1).argmax())
        own_values, likely_values = (
            [None] * len(one.choices) if index is None else _values(hand, one, before, index, meta.opponents)
            for index in (own.opponent, likely)
        )
        unknown = own.asked and own.opponent is None
        parts = list[DecisionParts]()
        for place, (near, far) in enumerate(zip(alone.regrets, whole.regrets, strict=True)):
            inference = least = 0.0
            # An ending outside of the rules has no choice, and is no error of inference.
            if own.opponent is not None and place < len(one.choices):
                inference = _lost(alone, place, one.choices[place], own_values[place])
                least = _lost(alone, place, one.choices[place], likely_values[place])
            parts.append(
                DecisionParts(
                    regret=far,
                    exploration=far - near,
                    inference=None if unknown else inference,
                    decision=None if unknown else near - inference,
                    least=None if unknown else least,
                )
            )
        found.append(parts)
    return found


def _values(
    values: DecisionValues, played: PlayedHand, before: Floats, opponent: int, opponents: int
) -> Sequence[Mapping[str, float] | None]:
    """Return the value of each action at each choice against one opponent, as `DecisionValues.action_values`.

    Args:
        values: Values of decisions.
        played: The hand.
        before: Posterior before the hand, with the same number of entries for each opponent.
        opponent: Index of the opponent.
        opponents: Number of opponents.
    """
    size = len(before) // opponents
    known = slice(opponent * size, (opponent + 1) * size)
    belief = np.zeros_like(before)
    # The opponent may be excluded by the hands so far. The player's belief is then wrong, but it is its belief.
    belief[known] = before[known] if before[known].any() else values.prior[known]
    return values.action_values(played, belief / belief.sum())


def _lost(judged: HandRegret, place: int, choice: OwnChoice, own: Mapping[str, float] | None) -> float:
    """Return the loss of the best action under a belief, or 0 if the belief excludes the decision."""
    if own is None:
        return 0.0
    values, row = judged.values[place], choice.probabilities or {choice.action: 1.0}
    best = max(own.values())
    equal = [action for action, value in own.items() if value >= best - _TIE * max(1.0, abs(best))]
    # If several actions are equally good under the belief, the player's own choice among them is no error of inference.
    taken = max(equal, key=lambda action: (row.get(action, 0.0), values[action]))
    return max(values.values()) - values[taken]
