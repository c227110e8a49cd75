"""Opponents of Promises: honest speakers, liars, and some whose honesty depends on what happened before."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mage_envs.core import Turn
from mage_envs.games.promises import CLAIMS, GRAB, SAY_GRAB, SAY_NOTHING, SAY_SHARE, SHARE
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy, probability_of

_GAMES = ("Promises",)
ANNOUNCED = {SAY_SHARE: SHARE, SAY_GRAB: GRAB}
"""Sentence to the claim that it announces."""
OPPOSITE = {SHARE: GRAB, GRAB: SHARE}
_OTHER = re.compile(r"opp\d?-")


class Talk(NamedTuple):
    """What a player knows of a hand, round after round; the open round may be without its last entries."""

    says: Sequence[str]
    other_says: Sequence[str]
    """Sentences of the other players, in the order of their seats in each round."""
    claims: Sequence[str]
    other_claims: Sequence[str]

    @classmethod
    def of(cls, turn: Turn) -> Talk:
        """Return what the information state of a turn tells."""
        own, others = list[str](), list[str]()
        for word in turn.information_state.split()[1:]:
            # With three players, the prefix has a number.
            prefix = _OTHER.match(word)
            (others if prefix else own).append(word[prefix.end() if prefix else 0 :].replace("-", " "))
        return cls(
            [action for action in own if action not in CLAIMS],
            [action for action in others if action not in CLAIMS],
            [action for action in own if action in CLAIMS],
            [action for action in others if action in CLAIMS],
        )


def speak(turn: Turn, truth: float, share: float) -> Mapping[str, float]:
    """Return the sentence or the claim of a player that always announces a claim.

    Args:
        turn: Turn of Promises.
        truth: Probability that it does what it announced.
        share: Probability that it announces sharing.
    """
    if turn.legal_actions != CLAIMS:
        return {SAY_SHARE: share, SAY_GRAB: 1 - share}
    announced = ANNOUNCED.get(Talk.of(turn).says[-1])
    # It never says nothing by itself.
    if announced is None:
        return {SHARE: share, GRAB: 1 - share}
    return {announced: truth, OPPOSITE[announced]: 1 - truth}


def _build_speaker(name: str, truth: float, share: float = 0.5) -> RulePolicy:
    return RulePolicy(partial(speak, truth=truth, share=probability_of(f"promises/{name}", share)))


honest = partial(_build_speaker, "honest", 1.0)
"""Opponent that does what it says; `promises/honest:.7` announces sharing with probability .7."""
liar = partial(_build_speaker, "liar", 0.0)
"""Opponent that does the opposite of what it says."""
random_talker = partial(_build_speaker, "random", 0.5)
"""Opponent whose words mean nothing: it does what it says in half of the cases."""


class ConditionalSpeaker(LearningPolicy):
    """A speaker that is honest or lies by its memory: True if it is honest."""

    start: Hashable = True

    def __init__(self, share: float = 0.5) -> None:
        """Initialize the speaker. `share` is the probability that it announces sharing."""
        self._share = probability_of(type(self).__name__, share)

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return speak(turn, float(self.is_honest(bool(memory), Talk.of(turn))), self._share)

    def is_honest(self, memory: bool, talk: Talk) -> bool:
        """Return True if it is honest in the open round."""
        return memory


@register_opponent("promises/until-it-pays", games=_GAMES, kind="learning")
class UntilItPays(ConditionalSpeaker):
    """An opponent that is honest until it was believed in every round of an episode; it lies ever after.

    It was believed if the others grabbed when it announced sharing, and shared when it announced grabbing.
    """

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        talk = Talk.of(turn)
        others = len(talk.other_claims) // len(talk.claims)
        believed = all(
            said in ANNOUNCED and claim == OPPOSITE[ANNOUNCED[said]]
            for number, said in enumerate(talk.says)
            for claim in talk.other_claims[others * number : others * (number + 1)]
        )
        return bool(memory) and not believed


@register_opponent("promises/mirror", games=_GAMES, kind="learning")
class HonestyMirror(ConditionalSpeaker):
    """An opponent that is as honest as the last announcement of another player was; at first it is honest."""

    def is_honest(self, memory: bool, talk: Talk) -> bool:
        # The other player has made its claim in finished rounds only, so `zip` leaves it out.
        for said, claim in zip(talk.other_says, talk.other_claims, strict=False):
            if said != SAY_NOTHING:
                memory = ANNOUNCED[said] == claim
        return memory

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return self.is_honest(bool(memory), Talk.of(turn))


# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name, _builder in (("honest", "honest"), ("liar", "liar"), ("random", "random_talker")):
    register_opponent(f"promises/{_name}", entry_point=f"{__name__}:{_builder}", games=_GAMES)
register_pool(
    "promises/speakers",
    {f"promises/{name}": 1 for name in ("honest", "liar", "liar:.7", "until-it-pays", "mirror", "random")},
)
register_pool("promises/fixed", {f"promises/{name}": 1 for name in ("honest", "liar", "random")})
register_split(
    "promises",
    Split(
        game="Promises",
        seed=44,
        train="pool:promises/speakers",
        train_about="speakers that are honest, lie, or do either by what happened before",
        heldout={f"promises/{name}:.8": 1.0 for name in ("honest", "liar", "mirror")},
        heldout_about="speakers that mostly announce sharing",
    ),
)
