import gymnasium as gym
import numpy as np
import pytest

import mage_envs
from mage_envs import IllegalAction, OpponentFailure, TextGame
from mage_envs.registry import list_games, load_game, make_game, register_game


def test_base_id_plays_a_hand_with_chips_as_reward():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/maniac", seat="first")
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        assert info == {"seat": 0, "legal_actions": ("check", "bet"), "invalid_reason": None}
        assert "You act first" in observation
        observation, reward, terminated, truncated, info = env.step("bet")
        assert terminated
        assert not truncated
        assert reward in (-2.0, 2.0)
        assert info["success"] is (reward > 0)
        assert info["opponent"] == "kuhn/maniac"
        assert f"{abs(int(reward))} chips" in observation


def test_seats():
    for seat, expected in (("first", {0}), ("second", {1}), ("alternate", {0, 1}), ("fixed", {0, 1})):
        env = gym.make("mage/TicTacToe-v0", seat=seat, opponent="uniform")
        assert {env.reset(seed=s)[1]["seat"] for s in range(20)} == expected
    env = gym.make("mage/TicTacToe-v0")
    assert env.reset(seed=1, options={"seat": 1})[1]["seat"] == 1


def test_hands_alternate_seats_and_carry_the_last_result():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/caller", hands_per_episode=3)
    _, info = env.reset(seed=5)
    seats, total, done = [info["seat"]], 0.0, False
    while not done:
        observation, reward, done, _, info = env.step(info["legal_actions"][0])
        total += reward
        if reward and not done:
            assert "The hand is over" in observation.split("\n\n")[0]
            seats.append(info["seat"])
    assert seats in ([0, 1, 0], [1, 0, 1])
    assert total == sum(hand.value for hand in env.unwrapped.hands)


def test_invalid_action_pays_nothing_spends_a_turn_and_ends_as_a_timeout():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash", max_turns=3)
    first, _ = env.reset(seed=0)
    for turn in range(3):
        observation, reward, terminated, truncated, info = env.step("raise")
        assert (reward, truncated, info["invalid_reason"]) == (0.0, False, "invalid")
        assert terminated is (turn == 2)
        assert turn == 2 or observation == first
    assert info["timeout"] is True
    assert info["success"] is False
    with pytest.raises(gym.error.ResetNeeded):
        env.unwrapped.step("bet")


def test_forfeit_loses_the_hand():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash", on_invalid="forfeit", hands_per_episode=2)
    env.reset(seed=0)
    observation, reward, terminated, _, _ = env.step("raise")
    assert (reward, terminated) == (-2.0, False)
    assert observation.startswith("Your answer was not a legal action: you forfeit the hand.")
    assert env.step("raise")[1:3] == (-2.0, True)


def test_opponents_by_every_kind_of_spec():
    from opponents import OpponentPool, make_opponent

    policy = make_opponent("kuhn/nash", make_game("KuhnPoker"))
    for spec in (
        "kuhn/nash",
        "kuhn/nash:0.2",
        "pool:kuhn/demo",
        policy,
        OpponentPool({"uniform": 1, "kuhn/rock": 1}),
        {"uniform": 0.5, "kuhn/rock": 0.5},
        "tests.mage_envs.test_env:Caller",
    ):
        env = gym.make("mage/KuhnPoker-Meta-v0", opponent=spec)
        env.reset(seed=1)


def test_pool_draws_follow_their_weights_and_the_seed():
    env = gym.make("mage/KuhnPoker-v0", opponent={"uniform": 3, "kuhn/rock": 1})

    def drawn(seed):
        env.reset(seed=seed)
        return env.unwrapped.seated.name

    names = [drawn(seed) for seed in range(400)]
    assert names == [drawn(seed) for seed in range(400)]
    assert 260 < names.count("uniform") < 340


class Caller:
    def reset(self, rng):
        pass

    def act(self, turn):
        return turn.legal_actions[-1]


class Broken(Caller):
    def act(self, turn):
        raise KeyError("lost")


class Cheat(Caller):
    def act(self, turn):
        return "raise"


@pytest.mark.parametrize(("name", "text"), [("Broken", "lost"), ("Cheat", "'raise' is not legal")])
def test_broken_opponents_are_named(name, text):
    env = gym.make("mage/KuhnPoker-v0", opponent=f"{__name__}:{name}", seat="second")
    with pytest.raises(OpponentFailure, match=f"{name}' failed in KuhnPoker: .*{text}"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"seat": "third"}, "seat='third' is unknown; choose one of: 'first', 'second', 'alternate', 'fixed'"),
        ({"on_invalid": "ignore"}, "choose one of: 'retry', 'forfeit'"),
        ({"hands_per_episode": 0}, "hands_per_episode=0 must be a whole number of at least 1"),
        ({"max_turns": 1.5}, "max_turns=1.5 must be a whole number"),
        ({"opponent": "kuhn/agressive"}, "Unknown opponent 'kuhn/agressive'. Did you mean 'kuhn/aggressive'"),
        ({"opponent": "minimax"}, "Opponent 'minimax' plays TicTacToe, not KuhnPoker"),
        ({"reveal": "never"}, "choose 'showdown' or 'always'"),
        ({"oponent": "kuhn/nash"}, "KuhnPoker does not take these options: .*'oponent'"),
    ],
)
def test_bad_options_get_one_line(kwargs, text):
    with pytest.raises((ValueError, KeyError, TypeError), match=text) as caught:
        gym.make("mage/KuhnPoker-v0", **kwargs)
    assert "\n" not in str(caught.value)


def test_reset_options_are_checked():
    env = gym.make("mage/KuhnPoker-v0")
    with pytest.raises(ValueError, match=r"unknown keys \['oponent'\]; known: opponent, seat"):
        env.reset(options={"oponent": "x"})
    with pytest.raises(ValueError, match="must be a seat from 0 to 1"):
        env.reset(options={"seat": 2})


def test_registry_of_games():
    assert {"KuhnPoker", "TicTacToe"} <= set(list_games())
    with pytest.raises(mage_envs.UnknownGame, match="Unknown game 'KuhnPokr'. Did you mean 'KuhnPoker'"):
        load_game("KuhnPokr")
    with pytest.raises(ValueError, match="already registered as mage_envs.games.kuhn_poker:KuhnPoker"):
        register_game("KuhnPoker", "elsewhere:Kuhn")
    with pytest.raises(ValueError, match="must have the form 'module:Class'"):
        register_game("Nowhere", "nowhere")
    register_game("KuhnPoker", "mage_envs.games.kuhn_poker:KuhnPoker")


def test_make_by_module_prefix():
    assert gym.make("mage_envs:mage/KuhnPoker-v0").reset(seed=0)


def test_a_game_that_ends_before_the_learner_moves():
    class Sudden(TextGame):
        name = "Sudden"
        rules = "The first player ends it."

        def reset(self, rng):
            self.over = False

        def current_player(self):
            return None if self.over else 0

        def legal_actions(self):
            return () if self.over else ("end",)

        def observe(self, player):
            return "over" if self.over else "your move"

        def apply(self, action):
            if action != "end":
                raise IllegalAction(action, ("end",))
            self.over = True

        def returns(self):
            return (1.0, -1.0) if self.over else (0.0, 0.0)

    from mage_envs.env import Seated, TextGameEnv
    from mage_envs.randomness import SharedStream

    env = TextGameEnv(Sudden(), opponents=None, seat="second")
    env.begin(Seated("caller", (Caller(),)), 1, SharedStream(np.random.default_rng(0)))
    assert env.over
    assert env.hands[0].value == -1.0
