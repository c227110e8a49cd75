"""The opponent that plays any legal action with the same probability."""

from __future__ import annotations

import numpy as np

from mage_envs.core import Turn
from opponents.registry import register_opponent


@register_opponent("uniform")
class Uniform:
    """Uniform over the legal actions, in any game that lists them; one `rng.random()` per choice."""

    follows_information_state = True

    def __init__(self) -> None:
        self._rng: np.random.Generator

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        legal = turn.legal_actions
        if not legal:
            raise ValueError(
                "Opponent 'uniform' needs legal actions, and this turn lists none; choose another opponent."
            )
        return legal[0] if len(legal) == 1 else legal[int(self._rng.random() * len(legal))]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """The same probability for each legal action."""
        return dict.fromkeys(turn.legal_actions, 1 / len(turn.legal_actions))


register_opponent("inspect/random", alias_of="uniform", games=("Inspection",))
