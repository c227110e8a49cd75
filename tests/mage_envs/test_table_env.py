"""The fast path yields the same bytes as the general one."""

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import load_game
from mage_envs.env import TextGameEnv
from mage_envs.games.table import TableGame, most_turns
from mage_envs.table_env import TableEnv
from tests.contract import pairs

SPELLINGS = {"KuhnPoker": ("PASS", "BET", " call ", "nonsense"), "TicTacToe": ("2 2", "(1,1)", "(9, 9)", "")}


def general(env):
    """The general environment with the same parts."""
    fast = env.unwrapped
    return TextGameEnv(fast.game.__class__(), fast.opponents, seat=fast.seat_mode, max_turns=fast.max_turns)


def transcript(env, game, odd, seed):
    rng = np.random.default_rng(seed)
    seen = []
    for episode in range(40):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        seen.append((observation, info))
        done = False
        while not done:
            legal = info["legal_actions"]
            action = legal[int(rng.integers(len(legal)))]
            if rng.random() < odd:
                action = SPELLINGS[game][int(rng.integers(4))]
            observation, reward, done, _, info = env.step(action)
            seen.append((observation, reward, done, info))
    return seen


@pytest.mark.parametrize(("game", "opponent"), [pair for pair in pairs() if issubclass(load_game(pair[0]), TableGame)])
@pytest.mark.parametrize("odd", [0.0, 0.4])
def test_fast_path_equals_the_general_one(game, opponent, odd):
    env = gym.make(f"mage/{game}-v0", opponent=opponent)
    assert isinstance(env.unwrapped, TableEnv)
    fast = transcript(env, game, odd, 3)
    if env.unwrapped.seated.replies is None:  # not tabulated: the generator is shared with the block of draws
        assert fast == transcript(env, game, odd, 3)
    else:
        assert fast == transcript(general(env), game, odd, 3)


def test_pool_mixes_draw_the_same():
    for game, pool in (
        ("KuhnPoker", "pool:kuhn/paper"),
        ("KuhnPoker", "pool:kuhn/demo"),
        ("TicTacToe", {"tictactoe/pattern-1": 1, "tictactoe/center-biased": 2}),
    ):
        env = gym.make(f"mage/{game}-v0", opponent=pool)
        assert transcript(env, game, 0.2, 8) == transcript(general(env), game, 0.2, 8)


def test_most_turns_of_a_player() -> None:
    kuhn, noughts = load_game("KuhnPoker")(), load_game("TicTacToe")()
    assert most_turns(kuhn.all_roots()) == 2  # the first player: check, then the answer to a bet
    assert most_turns(kuhn.all_roots()[:1]) == 2
    assert most_turns(noughts.all_roots()) == 5
