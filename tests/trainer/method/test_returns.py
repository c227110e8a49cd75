import numpy as np
import pytest

from mage_envs.trainer.method.returns import differential_rewards, step_returns
from tests.trainer.meta_episodes import LOSS, WIN, trajectory


def test_differential_rewards_are_the_papers():
    assert differential_rewards([LOSS, LOSS, WIN]) == [-10, 0, 20]
    assert differential_rewards([]) == []


def test_returns_of_lose_lose_win():
    returns = step_returns(trajectory([LOSS, LOSS, WIN]))
    expected = [-3.73, -3.93, -4.14, 9.77, 9.77, 10.29, 10.83, 18.05, 18.05, 19, 20]
    # episode 0: gs^(2-t) (-10 + .6 gs^2 (0 + .6 gs^2 20)); the issue rounds to two digits
    assert np.round(returns, 2).tolist() == pytest.approx([-3.73, -3.93, -4.14, *expected[3:]], abs=0.011)
    assert returns[8:] == pytest.approx([18.05, 19, 20])
    assert returns[3] == returns[4]


def test_exact_value_of_the_first_return():
    last_return = 0.95**2 * 20
    middle = 0.95**2 * 0.6 * last_return
    assert step_returns(trajectory([LOSS, LOSS, WIN]))[0] == pytest.approx(0.95**2 * (-10 + 0.6 * middle), abs=1e-12)


def test_cumulative_and_single_episode():
    two_episodes = trajectory([WIN, LOSS], turns=1, reflections=False)
    assert step_returns(two_episodes, "cumulative") == pytest.approx([10 - 6, -10])
    assert step_returns(two_episodes, "single_episode") == pytest.approx([10, -10])
    assert step_returns(two_episodes, "differential") == pytest.approx([10 - 0.6 * 20, -20])


def test_final_pays_only_the_last_episode_undiscounted():
    returns = step_returns(trajectory([LOSS, WIN, LOSS]), "final")
    assert returns == [-10.0] * 11


@pytest.mark.parametrize("gt", [0.6, 0.9, 1.0])
def test_weights_of_the_episodes_that_gt_gives(gt):
    weights = []
    for k in range(3):
        rewards = [0.0] * 3
        rewards[k] = 1.0
        weights.append(step_returns(trajectory(rewards, 2, reflections=False), gamma_step=1.0, gamma_episode=gt)[0])
    assert weights == pytest.approx([1 - gt, gt - gt**2, gt**2])


def test_penalties_discount_inside_their_episode_and_stay_there():
    clean = trajectory([LOSS, WIN])
    fined = trajectory([LOSS, WIN], penalties={(1, "play", 2): 0.5, (1, "reflect", 0): 2.0})
    change = np.subtract(step_returns(fined), step_returns(clean))
    penalty_returns = [-0.5 * 0.95**2, -0.5 * 0.95, -0.5]
    assert change == pytest.approx([0, 0, 0, penalty_returns[0] - 2.0, *penalty_returns])
    assert step_returns(fined, penalised=False) == step_returns(clean, penalised=False)


def test_credit_per_reward_equals_the_formula_and_agrees_with_episode_credit_for_one_hand():
    three_episodes = trajectory([3.0, 5.0, 1.0], reflections=True)
    gs, gt = 0.95, 0.6
    f2 = 1.0 - 5.0
    f1 = (5.0 - 3.0) + gt * f2
    returns = step_returns(three_episodes, credit="reward")
    assert returns[0] == pytest.approx(gs**2 * 3.0 + gs**2 * gt * f1)
    assert returns[4] == pytest.approx(gs**2 * 5.0 - 3.0 + gs**2 * gt * f2)
    assert returns[3] == returns[4]
    assert returns[-1] == pytest.approx(1.0 - 5.0)


def test_credit_per_reward_of_several_hands():
    from dataclasses import replace

    two_episodes = trajectory([0.0, 6.0], turns=3, reflections=False)
    steps = [step._replace(reward=reward) for step, reward in zip(two_episodes.steps, [1, -2, 1, 3, 1, 2], strict=True)]
    returns = step_returns(
        replace(two_episodes, steps=tuple(steps)), credit="reward", gamma_step=0.5, gamma_episode=0.5
    )
    assert returns[0] == pytest.approx(1 - 1 + 0.25 + 0.25 * 0.5 * 6)
    assert returns[3:] == pytest.approx([3 + 0.5 + 0.5, 1 + 1, 2])


def test_early_stop_leaves_unplayed_episodes_out():
    assert step_returns(trajectory([WIN], turns=2)) == pytest.approx([9.5, 10])
