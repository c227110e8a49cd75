from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace

import gymnasium as gym
import numpy as np
import pytest

import mage_envs
from mage_envs import Game, GameSpec, IllegalAction, OpponentFailure, State, play_match
from mage_envs.core import is_state_policy
from mage_envs.env import TextGameEnv
from mage_envs.games.table_game import TableGame, TableState
from mage_envs.opponents import OpponentPool, SeatedOpponents, TabularPolicy, make_opponent
from mage_envs.registry import list_games, load_game, make_game, register_game
from mage_envs.wrappers import MetaEpisode


def test_base_id_plays_a_hand_with_chips_as_reward():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/maniac", seat="first")
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        assert info == {
            "messages": [{"role": "user", "content": observation}],
            "phase": "play",
            "answer_tag": None,
            "num_episodes": 1,
            "max_steps": 6,
            "private": {},
            "episode_index": 0,
            "hand": 0,
            "seat": 0,
            "legal_actions": ("check", "bet"),
            "information_state": observation[11],
            "invalid_reason": None,
            "action": None,
        }
        assert "You act first" in observation
        observation, reward, terminated, truncated, info = env.step("bet")
        assert terminated
        assert not truncated
        assert reward in (-2.0, 2.0)
        assert info["success"] is (reward > 0)
        assert info["private"]["opponent"] == "kuhn/maniac"
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
    seats, total, terminated = [info["seat"]], 0.0, False
    while not terminated:
        observation, reward, terminated, _, info = env.step(info["legal_actions"][0])
        total += reward
        if reward and not terminated:
            assert "The hand is over" in observation.split("\n\n")[0]
            seats.append(info["seat"])
    assert seats in ([0, 1, 0], [1, 0, 1])
    assert total == sum(hand.value for hand in env.unwrapped.hands)


def test_invalid_action_spends_a_turn_and_ends_as_a_timeout_with_the_worst_return():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash", max_turns=3)
    first_observation, _ = env.reset(seed=0)
    for turn in range(3):
        observation, reward, terminated, truncated, info = env.step("raise")
        assert (reward, truncated, info["invalid_reason"]) == (-2.0 if turn == 2 else 0.0, False, "invalid")
        assert terminated is (turn == 2)
        assert turn == 2 or observation == first_observation
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

    def draw_name(seed):
        env.reset(seed=seed)
        return env.unwrapped.seated.name

    names = [draw_name(seed) for seed in range(400)]
    assert names == [draw_name(seed) for seed in range(400)]
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


class Unready(Caller):
    def on_meta_episode_start(self):
        raise KeyError("not yet")


@pytest.mark.parametrize(("seat", "theirs"), [("first", 1), ("second", 0)])
def test_an_opponent_that_fails_before_the_first_hand_is_named_with_its_seat(seat, theirs):
    env = gym.make("mage/KuhnPoker-v0", opponent=f"{__name__}:Unready", seat=seat)
    with pytest.raises(OpponentFailure, match="Unready' failed in KuhnPoker: 'not yet'") as caught:
        env.reset(seed=0)
    assert caught.value.seat == theirs
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(("learner", "first_asked"), [(0, 1), (1, 0), (2, 0)])
def test_with_three_players_too_the_seat_counts_from_the_first(learner, first_asked):
    env = gym.make("mage/OpenSpiel-v0", game="kuhn_poker(players=3)", opponent=f"{__name__}:Unready")
    with pytest.raises(OpponentFailure) as caught:
        env.reset(seed=0, options={"seat": learner})
    assert caught.value.seat == first_asked


@pytest.mark.parametrize("failing", [0, 1])
def test_a_match_names_the_policy_that_fails_before_the_first_hand(failing):
    players = [Caller(), Caller()]
    players[failing] = Unready()
    with pytest.raises(OpponentFailure, match="Opponent 'Unready' failed in KuhnPoker: 'not yet'") as caught:
        play_match(make_game("KuhnPoker"), players, np.random.default_rng(0))
    assert caught.value.seat == failing


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"seat": "third"}, "seat='third' is unknown; choose one of: 'first', 'second', 'alternate', 'fixed'"),
        ({"on_invalid": "ignore"}, "choose one of: 'retry', 'forfeit'"),
        ({"hands_per_episode": 0}, "hands_per_episode=0 must be a whole number of at least 1"),
        ({"max_turns": 1.5}, "max_turns=1.5 must be a whole number"),
        ({"opponent": "kuhn/agressive"}, "Unknown opponent 'kuhn/agressive'. Did you mean 'kuhn/aggressive'"),
        ({"opponent": "minimax"}, "Opponent 'minimax' plays TicTacToe, not KuhnPoker"),
        ({"reveal": "never"}, "reveal='never' is unknown; choose one of: 'showdown', 'always'"),
        ({"oponent": "kuhn/nash"}, "KuhnPoker does not take these options: .*'oponent'"),
    ],
)
def test_bad_options_get_one_line(kwargs, text):
    with pytest.raises((ValueError, KeyError, TypeError), match=text) as caught:
        gym.make("mage/KuhnPoker-v0", **kwargs)
    assert "\n" not in str(caught.value)


def test_reset_options_are_checked():
    env = gym.make("mage/KuhnPoker-v0")
    with pytest.raises(ValueError, match=r"unknown keys \['oponent'\]; known: opponent, seat, task, episode, deal"):
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
    with pytest.raises(ValueError, match=r"^Opponents 'kuhn' are already registered by mage_envs\.opponents"):
        register_game("Other", "elsewhere:Other", opponents={"kuhn": "x"})
    assert "Other" not in list_games()
    register_game("KuhnPoker", "mage_envs.games.kuhn_poker:KuhnPoker")


def test_make_by_module_prefix():
    assert gym.make("mage_envs:mage/KuhnPoker-v0").reset(seed=0)


@dataclass(frozen=True)
class SuddenState(State):
    """The player in seat 0 ends the hand by the one action that there is."""

    players: int
    over: bool = False

    @property
    def player(self):
        return None if self.over else 0

    @property
    def legal_actions(self):
        return () if self.over else ("end",)

    @property
    def returns(self):
        return tuple(float(seat == 0) - float(seat != 0) for seat in range(self.players)) if self.over else (0.0,) * 3

    def observation(self, seat):
        return "over" if self.over else "your move"

    def after(self, action):
        if action != "end":
            raise IllegalAction(action, ("end",))
        return replace(self, over=True)


class Sudden(Game):
    def __init__(self, players=2):
        self.spec = GameSpec(name="Sudden", rules="The first player ends it.", players=players)

    def initial_state(self, rng):
        return SuddenState(self.spec.players)


def test_an_episode_without_a_move_of_the_learner_ends_with_the_first_answer():
    env = TextGameEnv(Sudden(), SeatedOpponents(Caller(), Sudden()), seat="second")
    observation, info = env.reset(seed=0)
    assert (observation, info["legal_actions"]) == ("over", ())
    observation, reward, terminated, _, info = env.step("anything")
    assert (observation, reward, terminated, info["success"]) == ("over", -1.0, True, False)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("anything")
    meta = MetaEpisode(TextGameEnv(Sudden(), SeatedOpponents(Caller(), Sudden()), seat="second"), memory="none")
    meta.reset(seed=0)
    assert [meta.step("<action>end</action>")[1:3] for _ in range(3)] == [(-10.0, False), (-10.0, False), (-10.0, True)]


@pytest.mark.parametrize("players", [1, 2, 3])
def test_learners_sit_in_every_seat_of_a_table_of_any_size(players):
    game = Sudden(players)
    spec = None if players == 1 else f"{__name__}:Caller"
    env = TextGameEnv(game, SeatedOpponents(spec, game))
    seats = set()
    for seed in range(60):
        _, info = env.reset(seed=seed)
        seats.add(info["seat"])
        assert env.step("end")[2]
    assert seats == set(range(players))


class Countdown(TableGame):
    """A table game: players take turns to count from `players` down to 0."""

    def __init__(self, players):
        self.spec = GameSpec(name="Countdown", rules="Count.", players=players)
        super().__init__(((1.0, count(players, players)),))


def count(players, remaining):
    over = remaining == 0
    state = TableState(
        None if over else players - remaining,
        (1.0,) * players if over else (0.0,) * players,
        observations=(str(remaining),) * players,
        keys=(str(remaining),) * players,
        origin=(count, (players, remaining)),
    )
    if not over:
        state.connect({"down": count(players, remaining - 1)})
    return state


@pytest.mark.parametrize("players", [1, 2, 3])
def test_table_games_of_one_two_and_three_players(players):
    game = Countdown(players)
    env = TextGameEnv(game, SeatedOpponents(None if players == 1 else "uniform", game))
    seats = set()
    for seed in range(60):
        observation, info = env.reset(seed=seed)
        seats.add(info["seat"])
        assert observation == str(players - info["seat"])
        assert env.step("down")[1:3] == (1.0, True)
    assert seats == set(range(players))


def test_a_state_of_a_table_game_builds_its_info_once_and_no_caller_can_change_it():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash", seat="first")
    _, info = env.reset(seed=0)
    state = env.unwrapped.hand.state
    assert state.info(0) is state.info(0)
    assert state.info(0) == State.info(state, 0)
    info["legal_actions"], info["seat"] = (), 9
    observation, info = env.reset(seed=0)
    message = {"role": "user", "content": observation}
    assert info == state.info(0) | {"messages": [message], "max_steps": env.unwrapped.max_turns}
    assert state.info(0) == State.info(state, 0)


@pytest.mark.parametrize("action", [None, 3, b"bet", ["bet"]])
def test_an_action_that_is_not_text_is_refused_in_one_line(action):
    for env_id in ("mage/KuhnPoker-v0", "mage/TicTacToe-v0", "mage/KuhnPoker-Meta-v0"):
        env = gym.make(env_id, disable_env_checker=True)
        env.reset(seed=0)
        with pytest.raises(TypeError, match=f"as str, got {type(action).__name__}"):
            env.step(action)


def test_episodes_of_a_seed_have_one_opponent_and_deals_of_their_own():
    env = gym.make("mage/KuhnPoker-v0", opponent="pool:kuhn/demo", seat="first")

    def opening(seed, **options):
        observation, _ = env.reset(seed=seed, options=options)
        return observation[:30], env.unwrapped.seated.name

    for seed in range(30):
        openings = [opening(seed, episode=k) for k in range(4)]
        assert len({name for _, name in openings}) == 1
        assert opening(seed, episode=2, deal=0)[0] == openings[0][0]
        assert [opening(seed, episode=k) for k in range(4)] == openings
    assert len({opening(7, episode=k)[0] for k in range(20)}) > 1
    for options in ({"episode": -1}, {"deal": 0.5}):
        with pytest.raises(ValueError, match="must be a whole number from 0"):
            env.reset(seed=0, options=options)


def test_resets_without_a_seed_continue_the_streams_of_the_last_one():
    env, second_env = (gym.make("mage/KuhnPoker-v0", opponent="uniform") for _ in range(2))
    for _ in range(2):
        first_results = [env.reset(seed=3), *(env.reset() for _ in range(20))]
        assert first_results == [second_env.reset(seed=3), *(second_env.reset() for _ in range(20))]
    assert len({observation for observation, _ in first_results}) > 3


def test_gymnasiums_generator_is_that_of_the_seed():
    env = gym.make("mage/KuhnPoker-v0", disable_env_checker=True).unwrapped
    env.reset(seed=3)
    copied = deepcopy(env)
    expected = np.random.Generator(np.random.PCG64(3)).random(3).tolist()
    assert copied.np_random.random(3).tolist() == expected
    assert env.np_random.random() == expected[0]
    # A later episode of the same seed continues with the generator, and a new reset starts it again.
    env.reset(seed=3, options={"episode": 1})
    assert (env.np_random.random(), env.np_random_seed) == (expected[1], 3)
    env.reset(seed=3)
    assert env.np_random.random() == expected[0]
    env.np_random = np.random.default_rng(5)
    assert (env.np_random.random(), env.np_random_seed) == (np.random.default_rng(5).random(), -1)
    for seed in (-1, 1.5):
        with pytest.raises(gym.error.Error, match="Seed must be"):
            env.reset(seed=seed)


def test_environments_have_few_attributes():
    """CPython finds an attribute faster if an object has at most 30: a step was 5% slower with more."""
    env = gym.make("mage/KuhnPoker-Meta-v0", disable_env_checker=True)
    env.reset(seed=0)
    assert {type(each_env): len(vars(each_env)) <= 30 for each_env in (env, env.unwrapped)} == {
        MetaEpisode: True,
        TextGameEnv: True,
    }


def test_replies_read_off_a_table_are_those_of_the_policy():
    """A declared policy is tabulated in a table game; without the declaration it is asked: both draw alike."""

    class Asked(TabularPolicy):
        follows_information_state = False

    table = make_opponent("kuhn/soft-station", make_game("KuhnPoker"))
    undeclared = Asked(table.table)
    assert not is_state_policy(undeclared)
    counts = []
    for policy in (table, undeclared):
        env = gym.make("mage/KuhnPoker-v0", opponent=policy, seat="second")
        counts.append(Counter(env.reset(seed=seed)[0][29:] for seed in range(2000)))
    for text in counts[0] | counts[1]:
        assert abs(counts[0][text] - counts[1][text]) < 5 * (counts[0][text] + 25) ** 0.5


@pytest.mark.parametrize(
    "answer", ["<action>bet</action>", "I think of <action>check</action>, but <action> bet </action>"]
)
def test_base_ids_accept_the_tag(answer):
    plain, tagged = (gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash") for _ in range(2))
    for env in (plain, tagged):
        env.reset(seed=3)
    expected, result = plain.step("bet"), tagged.step(answer)
    assert result == expected
    assert result[4]["action"] == "bet"
    tagged.reset(seed=3)
    assert tagged.step("<action>fold it</action>")[4]["invalid_reason"] == "invalid"
