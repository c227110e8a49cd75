"""Expected calls, tokens and price of a run: exact means and intervals of made-up meta-episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mage_envs.benchmarks.evaluation.run.preflight import CutReplies, Preflight, Price, expectation, read_price
from mage_envs.benchmarks.evaluation.scoring.estimates import quantile
from mage_envs.core import Task
from mage_envs.wrappers.rollout.trajectory import GENERATOR, Failure, Step, Trajectory


def make_trajectory(
    calls: int, seed: int = 0, reason: str | None = None, tokens: tuple[int, int] | None = (100, 10)
) -> Trajectory:
    step = Step(episode=0, phase="play", turn=0, hand=0, anchor="", invalid_reason=reason, tokens=tokens)
    return Trajectory(
        task=Task("mage/KuhnPoker-Meta-v0", None, None, seed),
        opponent="kuhn/rock",
        group=0,
        member=0,
        steps=(step,) * calls,
        episodes=(),
        num_episodes=3,
        seconds=(2.0,) * calls,
    )


def test_an_expectation_is_the_mean_with_its_interval() -> None:
    expected_costs = expectation([make_trajectory(4, seed=1), make_trajectory(8, seed=2)], Price(0.5, 2.0))
    assert expected_costs.calls.mean == 6
    # The standard error of two values that differ by 4 is 2.
    assert expected_costs.calls.high == pytest.approx(6 + 2 * quantile(1))
    assert expected_costs.prompt_tokens is not None
    assert expected_costs.reply_tokens is not None
    assert (expected_costs.prompt_tokens.mean, expected_costs.reply_tokens.mean) == (600, 60)
    assert expected_costs.price is not None
    assert expected_costs.price.mean == pytest.approx((600 * 0.5 + 60 * 2.0) / 1e6)
    assert expected_costs.seconds is not None
    assert expected_costs.seconds.mean == 12
    # 300 meta-episodes of 12 s in 10 slots are 360 s.
    assert "300 meta-episodes, with 95% intervals: 1,800 [0, " in expected_costs.text(300, 10)
    assert "18,000 [0, " in expected_costs.text(300, 10)
    assert " 0.1 [0, " in expected_costs.text(300, 10)


def test_tokens_that_a_server_does_not_count_are_unknown() -> None:
    expected_costs = expectation([make_trajectory(4), make_trajectory(4, tokens=None)], Price(1, 1))
    assert expected_costs.prompt_tokens is None
    assert expected_costs.price is None
    assert "n/a prompt tokens, n/a reply tokens" in expected_costs.text(10, 1)
    assert "4" in expected_costs.text(1, 1)
    assert "[no interval] calls" in expected_costs.text(10, 1), "both have one seed"


def test_the_preflight_is_of_the_first_tasks_and_reports_once(capfd) -> None:
    preflight = Preflight("llm:m", 40, 4, price=None, allow_cut=False)
    broken = Failure(GENERATOR, "timeout: no answer", 0, 0)
    for index in [39, *range(15, 0, -1)]:
        preflight.add(index, make_trajectory(5, seed=index, reason="length" if index < 4 else None))
    assert capfd.readouterr().err == "", "the first one is still under way"
    preflight.add(0, replace(make_trajectory(5, seed=0, reason="refusal"), failures=(broken,)))
    preflight.add(16, make_trajectory(5))
    stderr = capfd.readouterr().err
    assert stderr.startswith(
        "Preflight of llm:m, 16 meta-episodes, 80 replies: invalid 0 (0.0%), cut 15 (18.8%), overflow 0 (0.0%), "
        "no text 5 (6.2%), failed 1 (1.2%)\nExpected for 40 meta-episodes"
    )
    assert stderr.count("\n") == 2


@pytest.mark.parametrize(("cut", "allowed", "stops"), [(3, False, False), (4, False, True), (16, True, False)])
def test_more_than_a_fifth_cut_stops_a_run(cut: int, allowed: bool, stops: bool) -> None:
    preflight = Preflight("llm:m", 40, 4, price=None, allow_cut=allowed)
    trajectories = [make_trajectory(5, seed=index, reason="length" if index < cut else None) for index in range(16)]
    for index in range(15):
        preflight.add(index, trajectories[index])
    if not stops:
        preflight.add(15, trajectories[15])
        return
    with pytest.raises(CutReplies, match="20 of 80 replies in the preflight were cut"):
        preflight.add(15, trajectories[15])


def test_a_run_without_further_calls_does_not_stop(capfd) -> None:
    preflight = Preflight("llm:m", 17, 32, price=None, allow_cut=False)
    for index in range(16, -1, -1):
        preflight.add(index, make_trajectory(5, seed=index, reason="length"))
    assert "cut 80 (100.0%)" in capfd.readouterr().err


def test_a_run_of_sixteen_has_no_preflight(capfd) -> None:
    preflight = Preflight("llm:m", 16, 4, price=None, allow_cut=False)
    for index in range(16):
        preflight.add(index, make_trajectory(5, reason="length"))
    assert capfd.readouterr().err == ""


def test_a_price_is_two_numbers() -> None:
    assert read_price("0.5,1.5") == Price(0.5, 1.5)
    for text in ("1", "1,2,3", "-1,2", "nan,1", "1,inf", "a,b", ""):
        with pytest.raises(ValueError, match="--price requires two numbers of at least 0"):
            read_price(text)
