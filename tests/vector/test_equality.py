"""Our vector environments show what Gymnasium's `SyncVectorEnv` shows, and what single environments show."""

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.vector import LoopVectorEnv
from tests.packages import mark_params
from tests.vector.compare import MODES, assert_same, gymnasiums, ours, play, reply

CASES = [
    ("mage/KuhnPoker-v0", {}),
    ("mage/KuhnPoker-v0", {"opponent": "kuhn/soft-station", "seat": "second", "reveal": "always"}),
    ("mage/KuhnPoker-v0", {"opponent": {"kuhn/maniac": 1, "kuhn/nash": 2, "cfr:9": 1}, "max_turns": 2}),
    ("mage/KuhnPoker-v0", {"opponent": "kuhn/soft-aggressive", "on_invalid": "forfeit"}),
    ("mage/KuhnPoker-v0", {"opponent": "uniform"}),
    ("mage/KuhnPoker-v0", {"hands_per_episode": 3}),
    ("mage/TicTacToe-v0", {"opponent": "tictactoe/pattern-1"}),
    ("mage/TicTacToe-v0", {"opponent": {"tictactoe/pattern-3": 1, "tictactoe/center-biased": 2}}),
    ("mage/TicTacToe-v0", {"opponent": "minimax", "seat": "first"}),
    ("mage/TicTacToe-v0", {"opponent": "mcts:20"}),
    ("mage/TicTacToe-v0", {}),
    ("mage/Sokoban-v0", {}),
    ("mage/Sokoban-v0", {"boxes": 1, "max_moves": 6, "min_moves": 1, "on_invalid": "forfeit"}),
    ("mage/Sokoban-v0", {"boxes": 3, "size": 9, "max_turns": 30, "max_moves": 12}),
    ("mage/Sokoban-v0", {"hands_per_episode": 2}),
    ("mage/KuhnPoker-Meta-v0", {"hands_per_episode": 2}),
    ("mage/TicTacToe-Meta-v0", {"opponent": "mcts:20", "num_episodes": 2}),
    ("mage/Sokoban-Meta-v0", {"num_episodes": 2}),
]


def name(value):
    return value if isinstance(value, str) else str(value) if isinstance(value, dict) else None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("env_id", "options"), mark_params(CASES, step=3), ids=name)
def test_equal_to_sync_vector_env(env_id, options, mode):
    steps = 25 if "Meta" in env_id else 60
    for odd, seeds in ((0.0, 3), (0.25, [5, None, 7, 5, 1])):
        mine, theirs = ours(env_id, 5, mode, **options), gymnasiums(env_id, 5, mode, **options)
        assert isinstance(mine, LoopVectorEnv)
        assert mine.metadata == theirs.metadata
        assert mine.single_observation_space == theirs.single_observation_space
        assert mine.observation_space == theirs.observation_space
        assert mine.action_space == theirs.action_space
        if isinstance(seeds, list):  # a row without a seed has randomness of its own: seed it first
            mine.reset(seed=11)
            theirs.reset(seed=11)
        assert_same(play(mine, steps, 1, odd, seeds), play(theirs, steps, 1, odd, seeds))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("mage/KuhnPoker-v0", {}),
        ("mage/KuhnPoker-v0", {"opponent": "kuhn/soft-scared", "seat": "first"}),
        ("mage/TicTacToe-v0", {"opponent": {"tictactoe/corner-biased": 1, "tictactoe/pattern-6": 1}}),
        ("mage/Sokoban-v0", {"max_turns": 4}),
        ("mage/KuhnPoker-Meta-v0", {}),
    ],
)
def test_equal_to_single_environments(env_id, options):
    """Row by row, and in mode SAME_STEP."""
    count, steps = 3, 30 if "Meta" in env_id else 40
    envs = ours(env_id, count, "SameStep", **options)
    singles = [gym.make(env_id, **options) for _ in range(count)]
    texts, info = envs.reset(seed=40)
    for row, single in enumerate(singles):
        single_result = single.reset(seed=40 + row)
        assert single_result[0] == texts[row]
    rng = np.random.default_rng(0)
    for _ in range(steps):
        answers = [reply(info, row, rng, 0.1) for row in range(count)]
        texts, rewards, terminated, truncated, info = envs.step(answers)
        for row, single in enumerate(singles):
            text, reward, over, cut, row_info = single.step(answers[row])
            assert (reward, over, cut) == (rewards[row], terminated[row], truncated[row])
            if over:
                assert text == info["final_obs"][row]
                assert row_info["private"]["opponent"] == info["final_info"]["private"]["opponent"][row]
                text, row_info = single.reset()
            assert text == texts[row]
            assert row_info["legal_actions"] == info["legal_actions"][row]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options", [{"seat": 1}, {"opponent": "kuhn/maniac"}, {"opponent": "uniform", "seat": 0}, {"opponent": "kuhn/nash"}]
)
def test_options_of_reset(options, mode):
    """An opponent that the pool does not hold, and a seat; for the rows of the mask."""
    mine, theirs = ours("mage/KuhnPoker-v0", 4, mode), gymnasiums("mage/KuhnPoker-v0", 4, mode)
    assert_same(play(mine, 60, 2, 0.2, 9, options), play(theirs, 60, 2, 0.2, 9, options))


def test_options_are_left_as_they_are():
    envs = ours("mage/KuhnPoker-v0", 2, "Disabled")
    envs.reset(seed=0)
    options = {"reset_mask": np.array([True, False]), "seat": 1}
    envs.reset(options=options)
    assert sorted(options) == ["reset_mask", "seat"]


def test_arrays_are_the_callers():
    """Nothing that was handed out changes with the next step."""
    envs = ours("mage/KuhnPoker-v0", 4, "SameStep")
    texts, infos = envs.reset(seed=0)
    batch = envs.step(["bet"] * 4)
    copies = [value.copy() for value in (*batch[1:4], batch[4]["seat"], batch[4]["_seat"], batch[4]["legal_actions"])]
    for _ in range(5):
        envs.step(["bet"] * 4)
    assert_same(copies, [*batch[1:4], batch[4]["seat"], batch[4]["_seat"], batch[4]["legal_actions"]])
    masks = [id(value) for key, value in batch[4].items() if key.startswith("_")]
    assert len(set(masks)) == len(masks)
    assert texts == envs.reset(seed=0)[0]
    assert_same(infos, envs.reset(seed=0)[1])
