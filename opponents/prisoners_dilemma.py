"""Opponents of the repeated prisoner's dilemma: functions of the rounds of the hand so far.

Source: R. Axelrod, 1984, "The Evolution of Cooperation"; M. Nowak and K. Sigmund, 1993, "A strategy of win-stay,
lose-shift" (Pavlov).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.prisoners_dilemma import COOPERATE, DEFECT
from opponents.tabular import RulePolicy, probability_of

Rounds = Sequence[tuple[bool, bool]]
"""Of each round so far, whether oneself cooperated and whether the other did."""
Chance = Callable[[Rounds], float]
"""The probability of cooperating after these rounds."""


def rounds_of(turn: Turn) -> Rounds:
    """The rounds that an information state tells."""
    words = [word for word in turn.information_state.split() if word != "slipped"]
    return [(own == COOPERATE, other == f"opp-{COOPERATE}") for own, other in zip(words[::2], words[1::2], strict=True)]


def cooperates(chance: Chance, turn: Turn) -> dict[str, float]:
    """The rule that cooperates with that chance."""
    probability = float(chance(rounds_of(turn)))
    return {COOPERATE: probability, DEFECT: 1 - probability}


def _policy(chance: Chance) -> RulePolicy:
    return RulePolicy(partial(cooperates, chance))


def _constant(probability: float, rounds: Rounds) -> float:
    return probability


def _reciprocal(forgives: float, rounds: Rounds) -> float:
    return 1.0 if not rounds or rounds[-1][1] else forgives


def _unforgiving(rounds: Rounds) -> float:
    return float(all(other for _, other in rounds))


def _staying(rounds: Rounds) -> float:
    return float(not rounds or rounds[-1][0] == rounds[-1][1])


def _alternating(rounds: Rounds) -> float:
    return float(len(rounds) % 2 == 0)


all_c = partial(_policy, partial(_constant, 1.0))
"""Always cooperates."""
all_d = partial(_policy, partial(_constant, 0.0))
"""Always defects."""
tit_for_tat = partial(_policy, partial(_reciprocal, 0.0))
"""Cooperates first, then does what the other did in the round before."""
grim = partial(_policy, _unforgiving)
"""Cooperates until the other defects, and then defects to the end of the hand."""
pavlov = partial(_policy, _staying)
"""Cooperates first, and where both did the same in the round before."""
alternate = partial(_policy, _alternating)
"""Cooperates in every other round, the first among them."""


def generous(forgives: float = 1 / 3) -> RulePolicy:
    """Tit-for-tat that cooperates after a defection too, with that probability."""
    return _policy(partial(_reciprocal, probability_of("pd/generous", forgives)))


def at_random(probability: float) -> RulePolicy:
    """Cooperates with that probability, whatever happened; `uniform` is the one of .5."""
    return _policy(partial(_constant, probability_of("pd/random", probability)))
