"""Opponents of the repeated prisoner's dilemma, each a function of the hand's rounds so far.

Source: R. Axelrod, 1984, "The Evolution of Cooperation"; M. Nowak and K. Sigmund, 1993, "A strategy of win-stay,
lose-shift" (Pavlov).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.prisoners_dilemma import COOPERATE, DEFECT
from mage_envs.opponents.learning.matrix_games import register_learners
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy, probability_of

_GAMES = ("PrisonersDilemma",)

Rounds = Sequence[tuple[bool, bool]]
"""Rounds so far: (True if the player cooperated, True if the other player cooperated)."""
Chance = Callable[[Rounds], float]
"""Function from the rounds so far to the probability of cooperating."""


def rounds_of(turn: Turn) -> Rounds:
    """Return the rounds in a turn's information state."""
    # `slipped` only marks a choice that noise reversed. Without it, own and other choices alternate.
    words = [word for word in turn.information_state.split() if word != "slipped"]
    return [
        (own_choice == COOPERATE, other_choice == f"opp-{COOPERATE}")
        for own_choice, other_choice in zip(words[::2], words[1::2], strict=True)
    ]


def cooperates(chance: Chance, turn: Turn) -> dict[str, float]:
    """Return probabilities that cooperate with the chance of `chance`."""
    probability = float(chance(rounds_of(turn)))
    return {COOPERATE: probability, DEFECT: 1 - probability}


def _policy(chance: Chance) -> RulePolicy:
    return RulePolicy(partial(cooperates, chance))


def _constant(probability: float, rounds: Rounds) -> float:
    return probability


def _reciprocal(forgives: float, rounds: Rounds) -> float:
    return 1.0 if not rounds or rounds[-1][1] else forgives


def _unforgiving(rounds: Rounds) -> float:
    return float(all(cooperated for _, cooperated in rounds))


def _staying(rounds: Rounds) -> float:
    return float(not rounds or rounds[-1][0] == rounds[-1][1])


def _alternating(rounds: Rounds) -> float:
    return float(len(rounds) % 2 == 0)


all_c = partial(_policy, partial(_constant, 1.0))
"""Opponent that always cooperates."""
all_d = partial(_policy, partial(_constant, 0.0))
"""Opponent that always defects."""
tit_for_tat = partial(_policy, partial(_reciprocal, 0.0))
"""Opponent that cooperates first, then repeats the other player's last choice."""
grim = partial(_policy, _unforgiving)
"""Opponent that cooperates until the other player defects, then defects for the rest of the hand."""
pavlov = partial(_policy, _staying)
"""Opponent that cooperates first, and later if both players chose alike in the previous round."""
alternate = partial(_policy, _alternating)
"""Opponent that cooperates in every other round, starting with the first."""


def generous(forgives: float = 1 / 3) -> RulePolicy:
    """Return tit-for-tat that forgives: after a defection it cooperates with the probability `forgives`."""
    return _policy(partial(_reciprocal, probability_of("pd/generous", forgives)))


def at_random(probability: float) -> RulePolicy:
    """Return an opponent that cooperates with a constant probability; .5 is the same as `uniform`."""
    return _policy(partial(_constant, probability_of("pd/random", probability)))


class Grudge(LearningPolicy):
    """An opponent that cooperates until the other player defects, and then defects for the rest of all episodes."""

    start = False

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return {DEFECT if self.step(memory, turn) else COOPERATE: 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return memory or not all(cooperated for _, cooperated in rounds_of(turn))


class Mirror(LearningPolicy):
    """Tit-for-tat that does not forget: it begins an episode with the other player's last choice of the one before."""

    start = COOPERATE

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return {str(self.step(memory, turn)): 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        for _, cooperated in rounds_of(turn)[-1:]:
            return COOPERATE if cooperated else DEFECT
        return memory


class Deceiver(LearningPolicy):
    """Tit-for-tat until the other player has cooperated in every round of an episode; it defects ever after."""

    start = False

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        rounds = rounds_of(turn)
        return {DEFECT if memory or (rounds and not rounds[-1][1]) else COOPERATE: 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return memory or all(cooperated for _, cooperated in rounds_of(turn))


# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in ("all-c", "all-d", "tit-for-tat", "generous", "grim", "pavlov", "alternate"):
    register_opponent(f"pd/{_name}", entry_point=f"{__name__}:{_name.replace('-', '_')}", games=_GAMES)
register_opponent("pd/random", entry_point=f"{__name__}:at_random", games=_GAMES, form="pd/random:probability")
for _name, _class in (("grudge", Grudge), ("mirror", Mirror), ("deceiver", Deceiver)):
    register_opponent(_name, games=_GAMES, kind="learning")(_class)
register_learners(*_GAMES)
register_pool("pd/classic", dict.fromkeys(("pd/all-c", "pd/all-d", "pd/tit-for-tat", "pd/grim", "pd/pavlov"), 1))
register_pool("pd/changing", dict.fromkeys(("pd/tit-for-tat", "grudge", "pd/grim", "pd/all-d"), 1))
register_pool("pd/forgiving", dict.fromkeys(("pd/grim", "grudge"), 1))
register_pool("pd/turning", dict.fromkeys(("hazard:pd/all-c,pd/all-d,.4", "grudge", "pd/tit-for-tat"), 1))
register_split(
    "pd",
    Split(
        game="PrisonersDilemma",
        seed=18,
        train="pool:pd/classic",
        train_about="five classics, one of them always defecting",
        heldout=dict.fromkeys(("pd/generous", "pd/alternate", "pd/random:.7"), 1.0),
        heldout_about="three others",
        headroom=(
            ("pd/classic", {}),
            ("pd/classic", {"rounds": 3}),
            ("pd/classic", {"rounds": 2, "noise": 0.1}),
            ("pd/changing", {"rounds": 3}),
            ("pd/forgiving", {"rounds": 3}),
            ("pd/turning", {"rounds": 3}),
        ),
    ),
)
