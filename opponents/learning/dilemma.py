"""Opponents of the prisoner's dilemma that remember earlier episodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from mage_envs.core import Turn
from mage_envs.games.prisoners_dilemma import COOPERATE, DEFECT
from mage_envs.opponents.learning.matrix_games import rounds_of
from mage_envs.opponents.learning.policy import LearningPolicy


class Grudge(LearningPolicy):
    """An opponent that cooperates until the other player defects, and then defects for the rest of all episodes."""

    start = False

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return {DEFECT if self.step(memory, turn) else COOPERATE: 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return memory or any(other == DEFECT for _, other in rounds_of(turn))


class Mirror(LearningPolicy):
    """Tit-for-tat that does not forget: it begins an episode with the other player's last choice of the one before."""

    start = COOPERATE

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return {str(self.step(memory, turn)): 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        rounds = rounds_of(turn)
        return rounds[-1][1] if rounds else memory


class Deceiver(LearningPolicy):
    """Tit-for-tat until the other player has cooperated in every round of an episode; it defects ever after."""

    start = False

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        rounds = rounds_of(turn)
        return {DEFECT if memory or (rounds and rounds[-1][1] == DEFECT) else COOPERATE: 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return memory or all(other == COOPERATE for _, other in rounds_of(turn))
