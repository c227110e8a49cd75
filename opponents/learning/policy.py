"""Base class of opponents that learn: their play depends on a memory of earlier hands which both players can know."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.hand import cuts_of, pick


class LearningPolicy(Policy):
    """An opponent that is a rule of play and a rule of memory. It draws one number per decision that is not certain.

    A subclass implements `distribution_given(turn, memory)` and `step(memory, turn)`, as pure functions. The same
    object then plays in every environment, and `mage_envs.opponents.exact` computes what a learner can earn against it.
    Exact values require that the memory depends only on what both players see. They check it, and raise `NotExact` if
    the memory depends on a hidden card.

    Example::

        class Grudge(LearningPolicy):
            start = False

            def distribution_given(self, turn, memory):
                betrayed = memory or "opp-defect" in turn.information_state
                return {"defect" if betrayed else "cooperate": 1.0}

            def step(self, memory, turn):
                return memory or "opp-defect" in turn.information_state
    """

    start: Hashable = ()
    """Memory before the first hand of a meta-episode: any hashable value but None."""
    _memory: Hashable = None
    """Present memory; None before the first hand."""
    _rng: np.random.Generator

    @abstractmethod
    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        """Return the probability of each legal action. A missing action has probability 0.

        Args:
            turn: Turn to move. What happened in this hand follows from its information state; do not use its history.
            memory: Memory before this hand.
        """

    @abstractmethod
    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        """Return the memory after a hand.

        Args:
            memory: Memory before the hand.
            turn: The opponent's view of the end of the hand, as in `on_hand_end`.
        """

    def on_meta_episode_start(self) -> None:
        """Forget all earlier hands."""
        self._memory = None

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the memory is kept."""
        self._rng = rng

    def act(self, turn: Turn) -> str:
        cuts = cuts_of(turn.information_state, self.distribution(turn), turn.legal_actions)
        return pick(cuts, self._rng.random()) if cuts[0] else cuts[1]

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the distribution under the present memory."""
        return self.distribution_given(turn, self._present())

    def on_hand_end(self, turn: Turn) -> None:
        """Update the memory by a hand that the rules ended."""
        self._memory = self.step(self._present(), turn)

    def _present(self) -> Hashable:
        return self.start if self._memory is None else self._memory
