"""An opponent that may turn into another one between two episodes, at times that nobody announces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mage_envs.core import Game, Policy, Turn, has_distribution, has_memory
from mage_envs.hand import cuts_of, pick
from mage_envs.loading.arguments import Rest
from mage_envs.loading.defaults import fill_in
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.registry import make_opponent, split_names

_FORM = "hazard:pd/tit-for-tat,pd/all-d,.2"


class Hazard(Policy):
    """One of several policies, drawn uniformly before each meta-episode, and again after each episode with a hazard.

    The new draw may return the same policy. Policies that learn remember all hands, also those that another one played.
    Which policy plays is hidden.
    """

    def __init__(self, parts: Sequence[Policy], hazard: float) -> None:
        """Initialize the opponent.

        Args:
            parts: Policies with exact probabilities.
            hazard: Probability of a new draw after each episode.

        Raises:
            ValueError: If the hazard is outside [0, 1], there are fewer than two policies, or one of them is not exact.
        """
        if not 0 <= hazard <= 1:
            raise ValueError(f"Opponent 'hazard': the hazard must be between 0 and 1, got {hazard}.")
        if len(parts) < 2:
            raise ValueError(f"Opponent 'hazard' needs two opponents or more, and a probability, as in {_FORM!r}.")
        self.parts: tuple[Policy, ...] = tuple(fill_in(part, Policy) for part in parts)
        for part in self.parts:
            if not has_distribution(part) or (has_memory(part) and not isinstance(part, LearningPolicy)):
                raise ValueError(
                    f"Opponent 'hazard': the probabilities of {type(part).__name__} are not known. Name opponents with "
                    "a distribution, without a memory or with a public one."
                )
        self.hazard = hazard
        self._rng: np.random.Generator
        self._active: int | None = None
        """Index of the policy that plays, or None before the first turn of a meta-episode."""
        self._episode = 0
        """Episode for which it was drawn."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In another process, the classes of the policies do not have the defaults yet.
        self.__dict__.update(state)
        for part in self.parts:
            fill_in(part, Policy)

    def on_meta_episode_start(self) -> None:
        """Forget all earlier hands; the next turn draws a policy."""
        self._active = None
        for part in self.parts:
            part.on_meta_episode_start()

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand."""
        self._rng = rng

    def act(self, turn: Turn) -> str:
        row = self.parts[self._draw(turn.episode)].distribution(turn)
        cuts = cuts_of(turn.information_state, row, turn.legal_actions)
        return pick(cuts, self._rng.random()) if cuts[0] else cuts[1]

    def on_hand_end(self, turn: Turn) -> None:
        """Update the memories of all policies."""
        self._draw(turn.episode)
        for part in self.parts:
            part.on_hand_end(turn)

    def _draw(self, episode: int) -> int:
        """Return the index of the policy that plays in an episode."""
        # A hand begins without its episode, so the draws come with the hand's first turn.
        active = self._active
        if active is None:
            active = self._draw_index()
        else:
            for _ in range(self._episode, episode):
                if self._rng.random() < self.hazard:
                    active = self._draw_index()
        self._active, self._episode = active, episode
        return active

    def _draw_index(self) -> int:
        return int(self._rng.random() * len(self.parts))


def build_hazard(game: Game, description: Rest) -> Hazard:
    """Return an opponent that changes at hidden times: `hazard:pd/tit-for-tat,pd/all-d,.2`.

    Args:
        game: Game that is played.
        description: Two opponents or more, and the probability of a new draw after each episode.

    Raises:
        ValueError: If the probability is missing, or an opponent is not exact.
    """
    names, _, hazard = description.rpartition(",")
    try:
        probability = float(hazard)
    except ValueError:
        raise ValueError(
            f"Opponent 'hazard:{description}' must end with a probability, as in {_FORM!r}. In a list of opponents, "
            "separate them by semicolons."
        ) from None
    return Hazard([make_opponent(name, game) for name in split_names(names)], probability)
