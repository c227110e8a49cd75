from dataclasses import replace

import numpy as np
import pytest

from mage_envs.trainer.method.advantages import CreditConfig, _centre_values, compute_advantages, without_variance
from mage_envs.trainer.method.returns import returns_from_values
from mage_envs.wrappers import ADAPTIVE, PAPER
from tests.trainer.meta_episodes import LOSS, WIN, trajectory

LLL = [LOSS, LOSS, LOSS]


def group(*rewards, **kwargs):
    return [trajectory(r, member=m, **kwargs) for m, r in enumerate(rewards)]


def config(protocol=ADAPTIVE, **kwargs):
    return CreditConfig.from_protocol(protocol, **kwargs)


@pytest.mark.parametrize("anchor", ["global", "local"])
@pytest.mark.parametrize("returns", ["differential", "cumulative", "single_episode", "final"])
@pytest.mark.parametrize("norm", ["mean", "mean_std"])
def test_identical_members_get_exactly_zero_under_adaptive(anchor, returns, norm):
    weights, metrics = compute_advantages(
        group(*[LLL] * 8), config(anchor=anchor, returns=returns, advantage_norm=norm)
    )
    assert all(value == 0.0 for member in weights for value in member)
    assert metrics == {"groups/count": 1.0, "groups/zero_variance": 1.0}


def test_identical_members_under_paper_have_the_measured_values():
    weights, _ = compute_advantages(group(*[LLL] * 8), config(PAPER))
    expected = [-13.29, -13.61, -13.94, 2.73, 5.74, 5.89, 6.06, 2.73, 5.74, 5.89, 6.06]
    for member in weights:
        assert np.round(member, 2).tolist() == expected


def test_pooled_anchors_alone_give_the_measured_values():
    weights, _ = compute_advantages(group(*[LLL] * 8), config(PAPER))
    by_step = [weights[0][i] - (-80 / 11 if i < 3 else 30 / 11) for i in (0, 4, 8)]
    assert by_step == pytest.approx([-6.0, 3.0, 3.0], abs=0.02)


def test_centred_example():
    members = group([LOSS, LOSS, WIN], LLL)
    centred = _centre_values(members, config())
    returns = returns_from_values(members[0], centred[0], 0.95, True)
    play = [returns[i] for i, step in enumerate(members[0].steps) if step.phase == "play"]
    assert play == pytest.approx([2.65, 2.79, 2.93, 4.89, 5.14, 5.42, 9.03, 9.5, 10], abs=0.0051)


def test_gigpo_adds_episode_and_step_parts():
    members = group([WIN], [LOSS], turns=1)
    weights, _ = compute_advantages(members, config())
    assert weights == [[20.0], [-20.0]]  # 10 by episode, 10 by the shared anchor
    weights, _ = compute_advantages(members, config(step_weight=0.0))
    assert weights == [[10.0], [-10.0]]


def test_singleton_anchor_has_no_step_part():
    first_member, second_member = group([WIN], [LOSS], turns=1)
    elsewhere = replace(second_member, steps=(second_member.steps[0]._replace(anchor="elsewhere"),))
    weights, _ = compute_advantages([first_member, elsewhere], config())
    assert weights == [[10.0], [-10.0]]


def test_local_anchor_splits_by_episode():
    members = group(*[LLL] * 4)
    weights, _ = compute_advantages(members, config(PAPER, anchor="local"))
    by_score = [-80 / 11] * 3 + [30 / 11] * 8
    assert weights[0] == pytest.approx(by_score)  # nothing is left within an episode


def test_reflections_cluster_on_their_own_and_pay_their_own_penalty():
    members = group([LOSS, WIN], [LOSS, LOSS], turns=1)
    weights, _ = compute_advantages(members, config())
    assert weights[0][1] == -weights[1][1] > 0
    fined = [
        trajectory([LOSS, LOSS], turns=1, member=m, penalties={(1, "reflect", 0): 0.5} if m else {}) for m in (0, 1)
    ]
    weights, _ = compute_advantages(fined, config())
    # By episode 0 - .25 and -.5 + .25, and as much again by the anchor.
    assert weights == [[0.0, 0.5, 0.0], [0.0, -0.5, 0.0]]


def reflections(weights, members):
    return [
        value
        for member, weighed in zip(members, weights, strict=True)
        for step, value in zip(member.steps, weighed, strict=True)
        if step.phase == "reflect"
    ]


@pytest.mark.parametrize(
    ("anchor", "norm", "expected"),
    [
        ("shared", "mean", [3.0, -17.0, 3.0, 3.0]),
        ("episode", "mean", [-2.0, -12.0, -2.0, 8.0]),
        ("alone", "mean", [-2.0] * 4),
        ("shared", "mean_std", [0.306351, -1.693649, 0.306351, 0.306351]),
        ("episode", "mean_std", [-0.193649, -0.900756, -0.193649, 0.513458]),
        ("alone", "mean_std", [-0.193649] * 4),
    ],
)
def test_the_anchor_of_reflections(anchor, norm, expected):
    """By hand: dR is (-10, 20, 0) and (-10, 0, 20); the reflections' G are 20, 0 and 20, 20 for gs = gt = 1. The ten S
    have the mean 2 and the sample deviation sqrt(960 / 9); all four G have 15 and 10, those before episode 2 have 10
    and sqrt(200)."""
    members = group([LOSS, WIN, WIN], [LOSS, LOSS, WIN], turns=1)
    protocol = replace(PAPER, reflection_anchor=anchor)
    weights, _ = compute_advantages(members, config(protocol, advantage_norm=norm, gamma_step=1.0, gamma_episode=1.0))
    assert reflections(weights, members) == pytest.approx(expected, abs=2e-6)


def test_the_documents_worked_example():
    members = group([LOSS, WIN], [LOSS, LOSS], turns=1)
    discounts = {"gamma_step": 1.0, "gamma_episode": 1.0}
    weights, _ = compute_advantages(members, config(PAPER, **discounts))
    assert weights == [[-5.0, 10.0, 35.0], [-25.0, -10.0, -5.0]]
    weights, _ = compute_advantages(members, config(PAPER, advantage_norm="mean_std", **discounts))
    score, step = 120**0.5, (500 / 3) ** 0.5
    assert weights[0] == pytest.approx([-10 / score + 5 / step, 0.5**0.5, 20 / score + 15 / step], abs=1e-6)
    assert weights[1] == pytest.approx([-10 / score - 15 / step, -(0.5**0.5), -5 / step], abs=1e-6)


def test_protocols_say_how_reflections_are_compared():
    assert (PAPER.reflection_anchor, ADAPTIVE.reflection_anchor) == ("shared", "episode")
    with pytest.raises(
        ValueError, match=r"reflection_anchor='all'\) is unknown; choose one of: shared, episode, alone"
    ):
        replace(PAPER, reflection_anchor="all")


@pytest.mark.parametrize("norm", ["mean", "mean_std"])
@pytest.mark.parametrize("turns", [1, 3])
def test_equal_penalties_of_equal_members_give_exactly_zero(norm, turns):
    fines = {(k, phase, t): 2.5 for k in (0, 1) for phase in ("play", "reflect") for t in range(turns)}
    members = [trajectory([LOSS, WIN], turns=turns, member=m, penalties=fines) for m in range(4)]
    assert all(step.penalty == 2.5 for member in members for step in member.steps)
    weights, metrics = compute_advantages(members, config(advantage_norm=norm))
    assert all(value == 0.0 for member in weights for value in member)
    assert metrics["groups/zero_variance"] == 1.0


def test_a_penalty_is_compared_with_the_same_episode_and_phase():
    """By hand, gs = 1: in episode 0 the mean penalty of the four plays is .5, in episode 1 and of the reflections 0.

    The first member's penalties less that are 1.5 and -.5, the second's -.5 and -.5. So P is -1 and .5 for the first
    and 1 and .5 for the second. In episode 1 it is 0; the anchors of the two turns have the means 0 and .25.
    """
    members = [
        trajectory([LOSS, LOSS], turns=2, member=m, penalties={(0, "play", 0): 2.0} if m == 0 else {}) for m in (0, 1)
    ]
    weights, metrics = compute_advantages(members, config(gamma_step=1.0))
    assert weights[0] == [-1.5 - 1.0, 0.5 + 0.25, 0.0, 0.0, -0.25]
    assert weights[1] == [0.5 + 1.0, 0.5 + 0.25, 0.0, 0.0, -0.25]
    assert metrics["groups/zero_variance"] == 0.0


@pytest.mark.parametrize("fines", [{(0, "play", 0): 0.5}, {(1, "reflect", 0): 0.5}])
def test_a_group_that_differs_in_penalties_alone_has_variance(fines):
    members = [trajectory([LOSS, LOSS], member=m, penalties=fines if m else {}) for m in (0, 1)]
    assert without_variance(members) == set()
    assert without_variance([replace(members[0], member=1), members[0]]) == {0}


def test_groups_do_not_mix():
    two_groups = [trajectory([r], turns=1, group=g) for g, r in ((0, WIN), (0, WIN), (1, LOSS), (1, LOSS))]
    weights, metrics = compute_advantages(two_groups, config())
    assert weights == [[0.0]] * 4
    assert metrics["groups/zero_variance"] == 1.0
    pooled, _ = compute_advantages(two_groups, config(statistics="pooled"))
    assert pooled[0][0] > 0 > pooled[2][0]


def test_grpo_and_rloo():
    members = group([WIN], [LOSS], [LOSS], [LOSS], turns=2)
    weights, _ = compute_advantages(members, config(advantage="grpo"))
    assert weights[0] == pytest.approx([15, 15])
    weights, _ = compute_advantages(members, config(advantage="grpo", advantage_norm="mean_std"))
    assert weights[0][0] == pytest.approx(15 / 10, rel=1e-5)  # sample deviation: sqrt((15^2 + 3 * 5^2) / 3)
    weights, _ = compute_advantages(members, config(advantage="rloo"))
    assert weights[0][0] == pytest.approx(10 - (-10))


def test_member_mean_averages_a_hand_then_the_members():
    long, short = trajectory([WIN], turns=2), trajectory([LOSS], turns=1, member=1)
    weights, _ = compute_advantages([long, short], config(advantage="member_mean", credit="reward"))
    mean = (np.mean([9.5, 10]) - 10) / 2
    assert weights[0] == pytest.approx([9.5 - mean, 10 - mean])
    assert weights[1] == pytest.approx([-10 - mean])


def test_member_mean_divides_by_the_opponents_deviation():
    members = [
        trajectory([scale * sign], turns=1, group=g, member=m, opponent=str(g))
        for g, scale in ((0, 1.0), (1, 10.0))
        for m, sign in enumerate((1, -1))
    ]
    options = {"advantage": "member_mean", "credit": "reward", "advantage_norm": "mean_std"}
    weights, _ = compute_advantages(members, config(**options))
    assert [abs(member[0]) for member in weights] == pytest.approx([0.5**0.5] * 4, rel=1e-4)
    pooled, _ = compute_advantages(members, config(statistics="pooled", **options))
    assert abs(pooled[2][0]) > 5 * abs(pooled[0][0])


def test_failed_members_get_zero_and_count_nowhere():
    members = [*group([WIN], [LOSS], turns=1), trajectory([99.0], turns=1, member=2, failure="environment: broke")]
    weights, _ = compute_advantages(members, config())
    assert weights == [[20.0], [-20.0], [0.0]]


def test_bad_choices_name_the_remedy():
    with pytest.raises(ValueError, match="choose one of: gigpo, grpo, rloo, member_mean"):
        CreditConfig(advantage="ppo")
    with pytest.raises(ValueError, match='Use advantage="member_mean" or credit="episode"'):
        CreditConfig(credit="reward")
