"""The running episode: its answers, its hands, and its reward so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.core import BY_TIMEOUT, DRAW, FAILURE, SUCCESS, HandResult, episode_outcome, is_success
from mage_envs.settings import EpisodeReward
from mage_envs.text.prompts import EpisodeRecord, TurnRecord


class EpisodeBuffer:
    """Mutable state of an episode until it ends."""

    def __init__(self, index: int, first_observation: str) -> None:
        self.index, self.first_observation = index, first_observation
        self.turns: list[TurnRecord] = []
        self.hands: list[HandResult] = []
        self.thinking: list[str] = []
        """Replies since the last turn that contained only a thought."""
        self.answers = 0
        """Number of answers that used a turn."""
        self.answers_in_hand = 0
        """Number of those since the last hand ended."""
        self.value = 0.0
        """Sum of the environment's rewards so far."""
        self._unpaid = 0.0
        """Sum of the rewards since the last hand ended."""
        self._paid = 0.0
        """Part of the episode reward R_k that earlier hands have paid."""
        self._dropped = 0
        """Number of turns that `drop_oldest` removed from the window of prompts."""

    def earn(self, reward: float, ended_hands: Sequence[HandResult]) -> list[HandResult]:
        """Add the reward of a step, and return the hands that the step ended, with the values that were paid.

        The rewards have priority over the reported values of the hands, because a wrapper may have changed the
        rewards. If the two sums differ, the first hand that ended absorbs the difference.
        """
        self.value += reward
        self._unpaid += reward
        results = list(ended_hands)
        reported_sum = 0.0
        # Add in the environment's order, so that both sums are equal to the bit if no wrapper changed a reward. The
        # built-in sum() compensates rounding errors since Python 3.12.
        for result in results:
            reported_sum += result.value
        if results:
            if reported_sum != self._unpaid:
                results[0] = results[0]._replace(value=results[0].value + (self._unpaid - reported_sum))
            self._unpaid = 0.0
        return results

    def add(self, record: TurnRecord, results: Sequence[HandResult], reward: EpisodeReward, planned: int) -> float:
        """Store an answer and the hands that it ended.

        Args:
            record: The answer and the turn that it belongs to.
            results: Hands that the answer ended, often none.
            reward: Function of all ended hands and `planned`.
            planned: Number of hands per episode, unplayed hands included.

        Returns:
            The answer's share of the episode reward R_k.
        """
        self.turns.append(record)
        self.thinking = []
        if not results:
            self.answers_in_hand += 1
            return 0.0
        self.answers_in_hand = 0
        self.hands += results
        # The reward of an episode need not be a sum over hands (e.g. +10, 0 or -10), so each share is a difference.
        paid_before, self._paid = self._paid, float(reward(self.hands, planned))
        return self._paid - paid_before

    def newest_turns(self, window: int) -> list[TurnRecord]:
        """Return the newest turns, as many as a prompt shows."""
        limit = max(window - self._dropped, 0)
        # A slice of [-0:] would return every turn.
        return self.turns[-limit:] if limit else []

    def drop_oldest(self, window: int) -> bool:
        """Omit the oldest shown turn from later prompts. Return False if no turn is shown."""
        num_shown = len(self.newest_turns(window))
        if num_shown:
            # Not `+= 1`: if fewer turns were played than the window holds, one more drop would still show all of them.
            self._dropped = window - num_shown + 1
        return num_shown > 0

    def record(
        self, outcome: str, info: Mapping[str, Any], *, unit: str, shows_score: bool, single_player: bool
    ) -> EpisodeRecord:
        """Return the record of the episode after its end.

        Args:
            info: Last `info` of the environment. Its optional key `success` overrides the success of the hands.
            shows_score: True if the learner sees the return.
            single_player: True if the game has one player.

        Returns:
            The record.
        """
        success = info.get("success")
        return EpisodeRecord(
            index=self.index,
            first_observation=self.first_observation,
            turns=tuple(self.turns),
            outcome=outcome,
            reward=self._paid,
            value=float(sum([hand.value for hand in self.hands])),
            success=is_success(self.hands) if success is None else bool(success),
            timeout=BY_TIMEOUT in [hand.ended_by for hand in self.hands],
            unit=unit,
            hands=tuple(self.hands),
            ended_as=self._outcome(success, single_player),
            shows_score=shows_score,
        )

    def _outcome(self, success: bool | None, single_player: bool) -> str:
        """Return the outcome. `info["success"]` decides if it is true; a task for one player has no draws."""
        ended_as = SUCCESS if success else episode_outcome(self.hands)
        return FAILURE if single_player and ended_as == DRAW else ended_as
