"""Values of the logged metrics, not only their names."""

from __future__ import annotations

import pytest

from mage_envs.core import Task
from mage_envs.trainer.method.metrics import LARGEST_RATIO, UPDATE_METRICS, failure_message, update_metrics
from mage_envs.trainer.method.trajectory import Trajectory


def test_the_metrics_of_an_update_are_means_over_the_scored_tokens() -> None:
    sums = {name: 3.0 * place for place, name in enumerate(UPDATE_METRICS, start=1)}
    sums |= {"padded": 50.0, "useful": 40.0, LARGEST_RATIO: 7.0}
    logged = update_metrics(sums, tokens=9, scored=6, seconds=2.0, skipped=False)
    assert {name: logged[name] for name in UPDATE_METRICS} == {
        name: 0.5 * place for place, name in enumerate(UPDATE_METRICS, start=1)
    }
    # A maximum is no mean.
    assert logged[LARGEST_RATIO] == 7.0
    rest = {name: value for name, value in logged.items() if name not in (*UPDATE_METRICS, LARGEST_RATIO)}
    assert rest == {
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


@pytest.mark.parametrize(("failed", "threshold", "told"), [(1, 0.25, False), (2, 0.25, True), (4, 1.0, False)])
def test_failures_above_the_threshold_stop_a_run(failed: int, threshold: float, told: bool) -> None:
    rollout = [trajectory("generator: late" if place < failed else None) for place in range(4)]
    message = failure_message(rollout, 3, threshold)
    assert message == (
        f"{failed} of 4 meta-episodes of rollout 3 failed ({failed} generator), more than "
        f"failure_threshold={threshold:g}; the first: generator: late"
        if told
        else None
    )
