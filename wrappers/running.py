"""The episode that is played now: its answers, its hands, what it has paid so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.core import BY_TIMEOUT, DRAW, FAILURE, SUCCESS, HandResult, episode_outcome, is_success
from mage_envs.settings import EpisodeReward
from mage_envs.text.prompts import EpisodeRecord, TurnRecord


class RunningEpisode:
    """What is known of an episode before it is over."""

    def __init__(self, index: int, first_observation: str) -> None:
        self.index, self.first_observation = index, first_observation
        self.turns: list[TurnRecord] = []
        self.hands: list[HandResult] = []
        self.thinking: list[str] = []
        """Replies since the last turn that were a thought alone."""
        self.answers = 0
        """Answers that spent a turn."""
        self.value = 0.0
        """Sum of the environment's rewards."""
        self._unpaid = 0.0
        """Rewards since the last hand that ended."""
        self._paid = 0.0
        self._dropped = 0

    def earn(self, reward: float, told: Sequence[Mapping[str, Any]]) -> list[HandResult]:
        """Add the reward of a step, and return the hands that the step ended.

        The rewards are what is paid: a wrapper around the environment may have changed them. Then the first hand that
        ended is worth so much more or less.
        """
        self.value += reward
        self._unpaid += reward
        results = [HandResult(**one) for one in told]
        own = 0.0
        for result in results:  # added in the environment's order, so that equal sums are equal to the bit
            own += result.value
        if results:
            if own != self._unpaid:
                results[0] = results[0]._replace(value=results[0].value + (self._unpaid - own))
            self._unpaid = 0.0
        return results

    def add(self, record: TurnRecord, results: Sequence[HandResult], reward: EpisodeReward, planned: int) -> float:
        """Takes an answer and the hands that it ended; returns its share of R_k. `planned`: hands of an episode."""
        self.turns.append(record)
        self.thinking = []
        if not results:
            return 0.0
        self.hands += results
        before, self._paid = self._paid, float(reward(self.hands, planned))
        return self._paid - before

    def shown(self, window: int) -> list[TurnRecord]:
        """The newest turns that a prompt shows."""
        most = max(window - self._dropped, 0)
        return self.turns[-most:] if most else []

    def drop_oldest(self, window: int) -> bool:
        """Leaves the oldest turn that is shown out of later prompts; False where none is shown."""
        shown = len(self.shown(window))
        if shown:
            self._dropped = window - shown + 1
        return shown > 0

    def record(
        self, outcome: str, info: Mapping[str, Any], *, unit: str, shows_score: bool, alone: bool
    ) -> EpisodeRecord:
        """The episode as it is remembered, once it is over."""
        told = info.get("success")
        return EpisodeRecord(
            index=self.index,
            first_observation=self.first_observation,
            turns=tuple(self.turns),
            outcome=outcome,
            reward=self._paid,
            value=float(sum([hand.value for hand in self.hands])),
            success=is_success(self.hands) if told is None else bool(told),
            timeout=BY_TIMEOUT in [hand.ended_by for hand in self.hands],
            unit=unit,
            hands=tuple(self.hands),
            ended_as=self._outcome(told, alone),
            shows_score=shows_score,
        )

    def _outcome(self, success: bool | None, alone: bool) -> str:
        """Return the outcome. `info["success"]` decides if it is true; a task for one player has no draws."""
        found = SUCCESS if success else episode_outcome(self.hands)
        return FAILURE if alone and found == DRAW else found
