"""The contract on every id and every fitting opponent."""

import threading
import warnings
from itertools import product

import gymnasium as gym
import pytest

import mage_envs
from tests.contract import FEW, GARBAGE, check_id, pairs, transcript
from tests.packages import mark_params
from tests.processes import run_in_two_processes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # with pygame installed, PettingZoo imports deprecated modules of its own
    from pettingzoo.test import api_test, seed_test

PAIRS = pairs()
GAMES = mark_params(mage_envs.list_games())
OPTIONS = [
    {"protocol": "paper"},
    {"memory": "history"},
    {"memory": "both"},
    {"memory": "none"},
    {"context": "conversation"},
    {"context": "conversation", "memory": "both"},
    {"context": "conversation", "memory": "none"},
    {"hands_per_episode": 3},
    {"hands_per_episode": 2, "on_invalid": "forfeit"},
    {"seat": "first"},
    {"seat": "second"},
    {"num_episodes": 1},
    {"reward": "released"},
    {"reveal_opponent": True},
    {"max_turns": 1},
]

SCRIPT = """
import hashlib, sys
import gymnasium as gym
from tests.contract import pairs, transcript
import mage_envs
for game, name in pairs():
    for kind in ("v0", "Meta-v0"):
        seen = transcript(gym.make(f"mage/{game}-{kind}", opponent=name), 11, 2)
        print(game, name, kind, hashlib.sha256(repr(seen).encode()).hexdigest())
"""


@pytest.mark.parametrize(("game", "opponent"), mark_params(PAIRS, step=3))
@pytest.mark.parametrize("kind", mark_params(["Meta-v0", "v0"], step=2))
def test_contract(game, opponent, kind):
    check_id(f"mage/{game}-{kind}", opponent=opponent)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_contract_of_the_bare_id(game, kind):
    check_id(f"mage/{game}-{kind}")


# 7 is prime to the number of options: `make test` has each game with two options or more, and each option likewise.
@pytest.mark.parametrize(("game", "options"), mark_params(product(mage_envs.list_games(), OPTIONS), step=7))
def test_contract_of_meta_options(game, options):
    check_id(f"mage/{game}-Meta-v0", **FEW.get(game, {}) | options)


@pytest.mark.more
def test_same_seed_same_transcript_in_two_processes():
    assert len(run_in_two_processes(SCRIPT).splitlines()) == 2 * len(PAIRS)


@pytest.mark.parametrize(("game", "opponent"), [("TicTacToe", "mcts:20"), ("KuhnPoker", "uniform")])
def test_transcript_beside_another_environment_in_a_thread(game, opponent):
    def make():
        return gym.make(f"mage/{game}-Meta-v0", opponent=opponent)

    expected = transcript(make(), 5, 3)
    stop = threading.Event()

    def disturb():
        other_env = make()
        while not stop.is_set():
            transcript(other_env, 99, 1)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        assert transcript(make(), 5, 3) == expected
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.filterwarnings("ignore:Observation is not a NumPy array")
@pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be")
@pytest.mark.filterwarnings("ignore:Action space for each agent probably should be")
@pytest.mark.filterwarnings("ignore:Action mask numpy array is all zeros")
def test_pettingzoo(game):
    import pettingzoo

    def make():
        return pettingzoo.make("aec", f"mage/{game}-v0")

    api_test(make(), num_cycles=200)
    seed_test(make, num_cycles=50)


def test_pettingzoo_modules():
    from mage_envs.aec import kuhn_poker_v0, tic_tac_toe_v0

    for module, steps in ((kuhn_poker_v0, 3), (tic_tac_toe_v0, 9)):
        env = module.env()
        env.reset(seed=1)
        num_played = 0
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            is_over = terminated or truncated
            env.step(None if is_over else env.action_space(agent).sample(observation["action_mask"]))
            num_played += not is_over
        assert 1 < num_played <= steps
        assert sum(env.rewards.values()) == 0


LEGAL = "<action>bet</action>"
"""The tag that base ids accept, too. Of several, the last one counts."""


def test_the_last_tag_of_a_reply_is_its_answer():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash")
    env.reset(seed=0)
    plain = env.step("bet")
    env.reset(seed=0)
    assert env.step("<action>check</action>" + LEGAL * 5_000) == plain


@pytest.mark.parametrize("text", [text for text in GARBAGE if LEGAL not in text])
def test_garbage_is_one_invalid_answer(text):
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash")
    observation, _ = env.reset(seed=0)
    observation_after, reward, terminated, truncated, info = env.step(text)
    assert (observation_after, reward, terminated, truncated) == (observation, 0.0, False, False)
    assert info["invalid_reason"] == "invalid"
