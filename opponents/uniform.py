"""The opponent that plays any legal action with the same probability."""

from __future__ import annotations

import numpy as np

from mage_envs.core import Turn
from opponents.registry import register_opponent


@register_opponent("uniform")
class Uniform:
    """A uniform policy over the legal actions, for any game that lists them.

    It draws one `rng.random()` per turn, or nothing if only one action is legal.
    """

    follows_information_state = True

    def __init__(self) -> None:
        self._rng: np.random.Generator

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        legal = turn.legal_actions
        if not legal:
            raise ValueError(
                "Opponent 'uniform' requires legal actions, but this turn lists none. Choose another opponent."
            )
        # A forced move draws nothing, so the random stream does not depend on it.
        return legal[0] if len(legal) == 1 else legal[int(self._rng.random() * len(legal))]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return the same probability for each legal action."""
        return dict.fromkeys(turn.legal_actions, 1 / len(turn.legal_actions))
