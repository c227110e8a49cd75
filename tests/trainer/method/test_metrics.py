"""Values of the logged metrics, not only their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mage_envs.core import Task
from mage_envs.trainer.method.advantages import variance_metrics
from mage_envs.trainer.method.metrics import (
    LARGEST_RATIO,
    UPDATE_METRICS,
    failure_message,
    rollout_metrics,
    update_metrics,
)
from mage_envs.wrappers.rollout.trajectory import RETURN, Trajectory, mask_trajectory
from tests.trainer import meta_episodes


def test_the_metrics_of_an_update_are_means_over_the_scored_tokens() -> None:
    sums = {name: 3.0 * number for number, name in enumerate(UPDATE_METRICS, start=1)}
    sums |= {"padded": 50.0, "useful": 40.0, LARGEST_RATIO: 7.0}
    logged = update_metrics(sums, tokens=9, scored=6, seconds=2.0, skipped=False)
    assert {name: logged[name] for name in UPDATE_METRICS} == {
        name: 0.5 * number for number, name in enumerate(UPDATE_METRICS, start=1)
    }
    # A maximum is not averaged.
    assert logged[LARGEST_RATIO] == 7.0
    other_metrics = {name: value for name, value in logged.items() if name not in (*UPDATE_METRICS, LARGEST_RATIO)}
    assert other_metrics == {
        "updates/skipped": 0.0,
        "tokens/forwarded": 50.0,
        "tokens/padding_factor": 1.25,
        "tokens/trained": 9.0,
        "tokens/idle": 3.0,
        "time/update": 2.0,
    }


def test_a_skipped_update_has_no_metrics_of_its_loss() -> None:
    sums = {"kl": 3.0, "padded": 5.0, "useful": 5.0, LARGEST_RATIO: 7.0}
    logged = update_metrics(sums, tokens=9, scored=6, seconds=2.0, skipped=True)
    assert logged["updates/skipped"] == 1.0
    assert not {"kl", LARGEST_RATIO} & logged.keys()
    assert update_metrics(sums, tokens=0, scored=0, seconds=2.0, skipped=False)["kl"] == 3.0


def trajectory(failure: str | None) -> Trajectory:
    task = Task("mage/KuhnPoker-Meta-v0", seed=0)
    return Trajectory(
        task=task, opponent="o", group=0, member=0, steps=(), episodes=(), num_episodes=1, failure=failure
    )


@pytest.mark.parametrize(("failed", "threshold", "stops"), [(1, 0.25, False), (2, 0.25, True), (4, 1.0, False)])
def test_failures_above_the_threshold_stop_a_run(failed: int, threshold: float, stops: bool) -> None:
    rollout = [trajectory("generator: late" if index < failed else None) for index in range(4)]
    message = failure_message(rollout, 3, threshold)
    assert message == (
        f"{failed} of 4 meta-episodes of rollout 3 failed ({failed} generator), more than "
        f"failure_threshold={threshold:g}; the first: generator: late"
        if stops
        else None
    )


def test_the_metrics_of_a_rollout_count_failures_and_retries() -> None:
    rollout = [replace(meta_episodes.trajectory([1.0]), retries=number) for number in (0, 1, 2)]
    failed = mask_trajectory(replace(trajectory(None), retries=3), RETURN, "nan")
    logged = rollout_metrics([*rollout, failed])
    assert (logged["retries"], logged["failures"], logged["failures/return"]) == (6.0, 1.0, 1.0)


def test_a_masked_meta_episode_says_where_it_failed() -> None:
    """In the episode of its last answer; without an answer, in the first one."""
    long_trajectory = meta_episodes.trajectory([1.0, 2.0, 3.0])
    assert [
        mask_trajectory(member, RETURN, "nan").failures[-1].episode for member in (long_trajectory, trajectory(None))
    ] == [2, 0]


def test_shares_of_groups_without_variance_and_of_dropped_ones() -> None:
    equal = [meta_episodes.trajectory([1.0], group=group, member=member) for group in (0, 1) for member in (0, 1)]
    assert variance_metrics(equal[:2], []) == {"groups/zero_variance": 1.0, "groups/dropped": 1.0}
    assert variance_metrics(equal, equal[:2]) == {"groups/zero_variance": 1.0, "groups/dropped": 0.5}
    assert variance_metrics([], []) == {"groups/zero_variance": 0.0, "groups/dropped": 0.0}
