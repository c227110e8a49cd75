"""The scale of adaptation: exact lines, completions of failures, intervals, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dev.adapt_errors import level_moments
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, LEARNING_CELLS
from mage_envs.benchmarks.scale.adaptation import exact_values, pool_of, scale_of_cell
from mage_envs.benchmarks.scale.judged_play import judge_folder
from mage_envs.benchmarks.scale.scale import (
    ADAPTS,
    UNCLEAR,
    WRONG,
    Scale,
    ScaleScore,
    Stratum,
    family_weights,
    mean_score,
    score_strata,
    verdict,
)
from mage_envs.benchmarks.scale.scale_text import scale_sentence, score_text
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents.exact import headroom
from mage_envs.opponents.exact.headroom import Headroom
from mage_envs.registry import make_game
from tests.packages import mark_params

SCALE = Scale(
    no_memory=(1.0, 1.0, 1.0),
    best_learner=(0.5, 2.0, 2.0),
    knows_opponent=(2.0, 2.0, 2.0),
    most_in_last=2.0,
    hands=2,
    min_return=0.0,
    max_return=3.0,
)


def score(mean: float, half: float = 0.1, failed: int = 0) -> ScaleScore:
    return ScaleScore(
        mean=mean,
        low=None if failed else mean - half,
        high=None if failed else mean + half,
        worst=mean - failed,
        best=mean + failed,
        failed=failed,
        planned=10,
    )


def strata(*values: tuple[float, ...], missing: int = 0, slip: float = 0.0) -> list[Stratum]:
    return [
        Stratum(opponent=f"opponent {number}", weight=1 / len(values), values=row, missing=missing, slip=slip)
        for number, row in enumerate(values, start=1)
    ]


def test_the_ends_are_those_of_the_lines():
    # Two hands an episode: no memory earns 6, the best learner 9.
    assert SCALE.length == 3.0
    assert (SCALE.level(6.0), SCALE.level(9.0), SCALE.level(12.0)) == (0.0, 1.0, 2.0)
    assert SCALE.least_level == -2.0
    # Without memory the best learner pays in each episode: 2 x (2 + 2 - .5 - .5) / 3, so 1 plus its own payment, 1.
    assert SCALE.best_adaptation == pytest.approx(2.0)
    assert SCALE.widest_difference == 2 * 2 * 3 / 3


@pytest.mark.parametrize(("name", "share"), [("kuhn", 0.509), ("bargaining", 0.590), ("leduc", 0.501)])
def test_zero_is_the_optimum_of_one_episode(name, share):
    cell = CELLS[name]
    values = exact_values(cell)
    game = {"kuhn": "KuhnPoker", "bargaining": "Bargaining", "leduc": "LeducPoker"}[name]
    assert cell.game == game
    blind, no_memory, best = (
        sum(line) for line in (values.blind_per_episode, values.no_memory_per_episode, values.per_episode["sum"])
    )
    # Play that forgets even the hands of its episode is far below, by this share of its way to the best learner.
    assert (no_memory - blind) / (best - blind) == pytest.approx(share, abs=1e-3)
    single = headroom(make_game(cell.game, **cell.options), pool_of(cell), episodes=1, hands=cell.hands)
    assert values.no_memory_per_episode == pytest.approx(single.per_episode["sum"] * 3, abs=1e-12)


def test_with_one_hand_an_episode_no_memory_is_blind_play():
    values = exact_values(CELLS["noisy"])
    assert values.no_memory_per_episode == values.blind_per_episode
    scale = scale_of_cell(CELLS["noisy"])
    assert scale is not None
    assert scale.best_adaptation == pytest.approx(1.184, abs=5e-4)


@pytest.mark.parametrize("name", mark_params(["grudges", "turns", "traps", "moods2", "throws"], step=2))
def test_exact_levels_against_opponents_that_learn(name):
    cell = LEARNING_CELLS[name]
    values, scale = exact_values(cell), scale_of_cell(cell)
    assert scale is not None
    zero, best, myopic = (
        sum(line) for line in (values.no_memory_per_episode, values.per_episode["sum"], values.per_episode["myopic"])
    )
    assert level_moments(cell, scale, "blind")[0] == pytest.approx(0, abs=1e-9)
    assert level_moments(cell, scale, "myopic")[0] == pytest.approx((myopic - zero) / (best - zero), abs=1e-9)
    # The best learner with an empty memory plays its first episode again, but its opponents have not forgotten.
    later = sum(values.per_episode["sum"][1:]) - sum(values.restarted_per_episode[1:])
    assert scale.best_adaptation == pytest.approx(later / (best - zero), abs=1e-12)


def test_opponents_that_change_between_episodes_have_an_optimum_of_each_episode():
    pool = {"switch:kuhn/rock,kuhn/maniac,1": 0.5, "switch:kuhn/maniac,kuhn/rock,1": 0.5}
    values = headroom(KuhnPoker(), pool, episodes=2, hands=2)
    # In each episode one of two fixed opponents is met, so each is worth as much as a single episode against them.
    single_episode = headroom(KuhnPoker(), {"kuhn/rock": 0.5, "kuhn/maniac": 0.5}, episodes=1, hands=2)
    assert values.no_memory_per_episode == pytest.approx(single_episode.per_episode["sum"] * 2, abs=1e-12)


def test_a_negative_control_has_no_scale():
    assert all(scale_of_cell(CELLS[name]) is None for name in ("success", "patterns", "alone"))
    values = exact_values(CELLS["kuhn"])
    assert Scale.of(replace(values, per_episode={}), 3, -2, 2) is None
    assert isinstance(values, Headroom)


# -- scores ----------------------------------------------------------------------------------------------------


def test_a_score_without_failures_is_a_stratified_mean():
    scored = score_strata(strata((0.0, 1.0), (2.0, 4.0)), -10.0, 10.0)
    assert scored.mean == pytest.approx((0.5 + 3.0) / 2)
    # Variances .5 and 2 of two values each, weights 1/2, so 2 degrees of freedom are not enough for both.
    variance = 0.25 * 0.5 / 2 + 0.25 * 2 / 2
    freedom = variance**2 / ((0.25 * 0.25) ** 2 + 0.25**2)
    from scipy.stats import t

    assert scored.half == pytest.approx(t.ppf(0.975, freedom) * variance**0.5)
    assert (scored.failed, scored.planned, scored.worst, scored.best) == (0, 4, scored.mean, scored.mean)


def test_failures_give_the_worst_and_the_best_completion():
    scored = score_strata([Stratum("a", 0.5, (1.0,), 1), Stratum("b", 0.5, (0.0, 0.0), 0)], -1.0, 1.0)
    # One of two is missing: the stratum's mean is between 0 and 1.
    assert (scored.worst, scored.best) == (0.0, 0.5)
    assert (scored.failed, scored.planned, scored.low) == (1, 4, None)
    assert score_text(scored) == ".00 to .50"
    assert scored.to_json()["mean"] is None


def test_an_opponent_that_was_never_met_leaves_no_score():
    scored = score_strata([Stratum("a", 0.5, (1.0, 1.0), 0), Stratum("b", 0.5, (), 2)], -1.0, 1.0)
    assert scored.unmet == ("b",)
    assert (scored.worst, scored.best) == (0.0, 1.0)
    assert scored.floor is None
    sentence = scale_sentence("m", scored, score(1.0), score(1.0))
    assert sentence == "m has no score, because it never met b: level .00 to 1.00; 2 of 4 failed"
    # The other seat of an opponent that was met is a missing stratum, and no unmet opponent.
    seats = score_strata([Stratum("a", 0.5, (1.0, 1.0), 0), Stratum("a", 0.5, (), 2)], -1.0, 1.0)
    assert seats.unmet == ()


def test_a_stratum_without_variance_allows_for_slips_that_were_not_seen():
    # Twenty equal values: by the rule of three a slip has a probability of at most 3/20, and costs 2.
    scored = score_strata(strata((1.0,) * 10, (1.0,) * 10, slip=2.0), -10.0, 1.0)
    assert scored.low == pytest.approx(1 - 2 * 3 / 20)
    assert scored.high == 1.0
    # The second run of a difference may slip, too, which raises the difference.
    paired = score_strata(strata((1.0,) * 10, (1.0,) * 10, slip=2.0), -10.0, 10.0, paired=True)
    assert (paired.low, paired.high) == pytest.approx((1 - 2 * 3 / 20, 1 + 2 * 3 / 20))
    # With variance everywhere, nothing is added.
    with_slips = score_strata(strata((1.0, 0.0), (1.0, 0.5), slip=2.0), -10.0, 1.0)
    assert with_slips.low == pytest.approx(score_strata(strata((1.0, 0.0), (1.0, 0.5)), -10.0, 1.0).low)


def test_a_mean_counts_each_family_once_and_no_cell_below_minus_one():
    weights = family_weights({"a": "x", "b": "x", "c": "y"})
    assert weights == {"a": 0.25, "b": 0.25, "c": 0.5}
    mean_of_cells = mean_score([(0.25, score(1.0)), (0.25, score(-5.0)), (0.5, score(0.0))], -1.0)
    assert mean_of_cells.mean == pytest.approx(0.25 - 0.25)
    # The cell that counts -1 has no luck left.
    assert mean_of_cells.half == pytest.approx(np.hypot(0.25 * 0.1, 0.5 * 0.1))
    failed = mean_score([(0.5, score(1.0, failed=1)), (0.5, score(0.0))], -1.0)
    assert (failed.worst, failed.best, failed.low) == (0.0, 1.0, None)


# -- verdict and sentence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own_difference", "other_difference", "expected"),
    [
        (score(1.0), score(0.5), ADAPTS),
        (score(1.0), score(0.05), UNCLEAR),
        (score(0.05), score(1.0), UNCLEAR),
        (score(-1.0), score(-0.5), WRONG),
        (score(-1.0), score(0.5), UNCLEAR),
        (score(1.0), None, None),
        (None, None, None),
        # Even the worst completion is above 0, or it is not.
        (score(5.0, failed=1), score(5.0), ADAPTS),
        (score(0.5, failed=1), score(5.0), None),
        (replace(score(5.0), unmet=("b",)), score(5.0), None),
        (ScaleScore(mean=1.0, low=None, high=None, worst=1.0, best=1.0, failed=0, planned=1), score(1.0), None),
    ],
)
def test_the_verdict_needs_both_differences(own_difference, other_difference, expected):
    assert verdict(own_difference, other_difference) == expected


def test_the_sentence_has_both_numbers():
    level = score(0.43, 0.04)
    assert scale_sentence("m", level, score(0.5), score(0.6, 0.2)) == (
        "m adapts: .43 ± .04 level, adaptation by its own memory .50 ± .10, over another opponent's memory .60 ± .20"
    )
    assert scale_sentence("m", level, score(0.0), score(0.6)).startswith("m does not measurably adapt: .43 ± .04 level")
    assert scale_sentence("m", level, None, None) == "m: level .43 ± .04, no verdict (played without the controls)"
    failed = scale_sentence("m", score(0.43, failed=2), score(0.5, failed=3), score(0.6))
    assert failed.startswith("m: no verdict, level -1.57 to 2.43, ")
    assert failed.endswith("; 2 of 10 and 3 of 10 failed")
    assert "memory of earlier episodes is worth nothing here" in scale_sentence("m", None, None, None)


@pytest.mark.more
def test_both_estimates_of_adaptation_agree_where_nothing_is_luck(tmp_path):
    """Against each opponent they differ, but the means over the pool are equal: nothing in the game is random."""
    agent = "policy:bayes:ultimatum/reserves,3,1,sum"
    words = ["--panel", "adapt-ultimatum", "--no-baselines", "--out", str(tmp_path / "run")]
    assert main(["eval", agent, *words]) == 0
    judged_suite = judge_folder(tmp_path / "run")
    own_run, none = judged_suite.runs[""], judged_suite.runs["none"]
    paid = [sum(value.episodes[1:]) - sum(none.values[index].episodes[1:]) for index, value in own_run.values.items()]
    lost = [sum(none.values[index].regrets[1:]) - sum(value.regrets[1:]) for index, value in own_run.values.items()]
    assert max(abs(paid_value - lost_value) for paid_value, lost_value in zip(paid, lost, strict=True)) > 0.1
    assert own_run.difference(none, by_regrets=True).mean == pytest.approx(own_run.difference(none).mean, abs=1e-9)
    assert own_run.difference(none).mean > 0.5
    # Each opponent is met with one difference. The worst slip of the 56 pairs costs 3/56 of the largest open price.
    prices = [
        max(
            run.values[index].slip
            for run in (own_run, none)
            for index, task in enumerate(own_run.tasks)
            if task.opponent == name
        )
        for name in own_run.weights
    ]
    hidden = np.mean(prices) / own_run.scale.length * 3 / len(own_run.tasks)
    assert own_run.difference(none, by_regrets=True).half == pytest.approx(hidden)
    # The best learner has no regret, so its adaptation is the regret of the same player without memory.
    assert all(abs(regret) < 1e-9 for value in own_run.values.values() for regret in value.regrets)
    assert judged_suite.difference("none").mean == pytest.approx(own_run.difference(none).mean, abs=1e-9)
