"""A whole game in one file: roles, two hidden opponents, exact values, a memory, a reward, and one record.

    mage headroom Gifts --import examples.gifts
    mage eval policy:bayes:gifts/hidden --panel gifts-hidden-128 --memory examples.gifts:Liked --import examples.gifts
    mage train --preset mage-gifts --model tiny --dry-run --import examples.gifts

The giver (the learner) picks a gift; the friend keeps it or returns it. Which one the friend likes is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mage_envs import (
    Game,
    GameRecord,
    GameSettings,
    GameSpec,
    HandResult,
    IllegalAction,
    Policy,
    State,
    Turn,
    register_opponent,
    register_pool,
    register_record,
)
from mage_envs.wrappers import Memory, MemoryView

GIFTS = ("book", "ball")


@dataclass(frozen=True)
class Gift(State):
    """The gift and the answer so far."""

    moves: tuple[str, ...] = ()

    @property
    def player(self) -> int | None:
        return len(self.moves) if len(self.moves) < 2 else None

    @property
    def legal_actions(self) -> tuple[str, ...]:
        return (GIFTS, ("keep", "return"), ())[len(self.moves)]

    @property
    def returns(self) -> tuple[float, float]:
        share = float(self.moves[1:] == ("keep",))
        return share, share

    def observation(self, seat: int) -> str:
        if not self.moves:
            return "Choose a gift."
        if len(self.moves) == 1:
            return f"The gift is a {self.moves[0]}."
        return f"The gift was a {self.moves[0]}, and the answer: {self.moves[1]}."

    def after(self, action: str) -> Gift:
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        return Gift((*self.moves, action))


class Gifts(Game):
    """One gift to a friend with a hidden preference."""

    spec = GameSpec(
        name="Gifts",
        players=2,
        rules="You give a book or a ball to a friend, who keeps it or returns it. A gift that is kept is worth 1.",
        max_turns=1,
        actions=(*GIFTS, "keep", "return"),
        general_sum=True,
        min_return=0.0,
        max_return=1.0,
    )

    def initial_state(self, rng: np.random.Generator) -> Gift:
        return Gift()

    def initial_states(self) -> Sequence[tuple[float, Gift]]:
        return [(1.0, Gift())]


@register_opponent("gifts/likes", games=["Gifts"])
class Likes(Policy):
    """Keeps the gift that it likes nine times of ten, and the other one of ten: `gifts/likes:book`."""

    follows_information_state = True

    def __init__(self, gift: str = "book") -> None:
        self.gift = gift

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        return "keep" if self._rng.random() < self.distribution(turn)["keep"] else "return"

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        keeps = 0.9 if self.gift in turn.observation else 0.1
        return {"keep": keeps, "return": 1.0 - keeps}


register_pool("gifts/hidden", {"gifts/likes:book": 0.5, "gifts/likes:ball": 0.5})


class Liked(Memory):
    """A memory of the gifts that were kept."""

    def render(self, view: MemoryView) -> str:
        return "\n".join(record.outcome for record in view.records if "keep" in record.outcome)


def pay_gifts(hands: Sequence[HandResult], planned: int) -> float:
    """Pay 10 for each gift that was kept."""
    return 10.0 * sum(hand.value for hand in hands)


RECORD = GameRecord(
    name="Gifts",
    entry_point=f"{__name__}:Gifts",
    # A game with roles says which seat the learner has. Without it, the seats alternate.
    settings=GameSettings(
        opponent="pool:gifts/hidden", seat="first", rewards={"task": pay_gifts, "released": pay_gifts}
    ),
    opponents={"gifts": __name__},
    panels={"gifts-hidden": {"opponents": "pool:gifts/hidden", "seed": 1, "about": "one of two preferences, hidden"}},
    presets={"gifts": ({"opponents": "pool:gifts/hidden"}, {"max_turns": 1})},
)
register_record(RECORD)
