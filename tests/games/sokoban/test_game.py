"""The rules, the text, the rewards and the metrics of Sokoban, and its place in the environments."""

from __future__ import annotations

import copy
import pickle
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs import HandResult, IllegalAction, make_game, play_match
from mage_envs.core import is_success
from mage_envs.games.sokoban.game import SETTINGS, Sokoban
from mage_envs.games.sokoban.level import MOVES
from mage_envs.opponents import make_opponent

needs_gym_sokoban = pytest.mark.skipif(find_spec("gym_sokoban") is None, reason="needs the extra gym-sokoban")
CORRIDOR = """; 0
########
#@ $ . #
########
"""
TWO = """; 7
#######
#.$@$.#
#     #
#######
"""
STARTED = """; 0
#######
#     #
#+ $*.#
#$    #
#     #
#######
"""


@pytest.fixture
def level_file(tmp_path):
    def write(text):
        path = tmp_path / "levels.txt"
        path.write_text(text)
        return path

    return write


def start_level(path):
    return Sokoban(path).initial_state(np.random.default_rng(0))


def test_board_and_symbols(level_file):
    state = start_level(level_file(STARTED))
    assert (
        state.observation(0)
        == "Row 1: # # # # # # #\nRow 2: # _ _ _ _ _ #\nRow 3: # S _ X √ O #\nRow 4: # X _ _ _ _ #\n"
        "Row 5: # _ _ _ _ _ #\nRow 6: # # # # # # #"
    )
    assert "Row 3: # O P X √ O #" in state.after("right").observation(0)


def test_rows_of_large_boards_are_numbered_in_line():
    lines = Sokoban(size=10).initial_state(np.random.default_rng(0)).observation(0).splitlines()
    assert [line[:7] for line in lines] == [f"Row {number:>2}:" for number in range(1, 11)]
    assert len({len(line) for line in lines}) == 1


def test_what_follows_the_solving_move_is_not_executed(level_file):
    state = start_level(level_file(CORRIDOR)).after("right, right")
    assert (state.executed, state.returns, state.won(0)) == (2, (pytest.approx(-0.2),), False)
    state = state.after("right, right, left")
    assert state.executed == 3
    assert state.player is None
    assert state.won(0)
    assert state.legal_actions == ()
    assert state.observation(0).endswith(
        "Row 2: # _ _ _ P √ _ #\nRow 3: # # # # # # # #\nThe level is solved: every box is on a target."
    )
    assert state.returns == (pytest.approx(10 + 1 - 0.3),)
    with pytest.raises(IllegalAction):
        state.after("left")


def test_blocked_moves_are_legal_and_cost_their_tenth(level_file):
    first_state = start_level(level_file(TWO))
    state = first_state.after("up, up")
    assert state.observation(0) == first_state.observation(0)
    assert state.returns == (pytest.approx(-0.2),)
    state = state.after("left")
    assert state.returns == (pytest.approx(-0.3 + 1),)
    assert state.after("left").returns == (pytest.approx(-0.4 + 1),)


def test_boxes_that_start_on_targets_pay_when_they_leave_and_return(level_file):
    state = start_level(level_file(STARTED)).after("right, right")
    assert state.returns == (pytest.approx(-0.2),)  # two boxes in a row do not move
    state = state.after("down, right, up").after("down")
    assert state.returns == (pytest.approx(-0.6),)


def test_a_state_is_a_value(level_file):
    first_state = start_level(level_file(TWO))
    views_before = (first_state.observation(0), first_state.returns, first_state.executed, first_state.metrics())
    first_state.after("left, down, right")
    assert (
        first_state.observation(0),
        first_state.returns,
        first_state.executed,
        first_state.metrics(),
    ) == views_before
    assert first_state.after("left").observation(0) == first_state.after("LEFT").observation(0)


@pytest.mark.parametrize(
    "text", ["", "go", "up down", "up,", ",up", "up,,up", "up, up, up, up", "u p", "1", "up;down", "up, " * 100]
)
def test_illegal_actions_are_refused(level_file, text):
    with pytest.raises(IllegalAction, match="choose one of: up, down, left, right, or up to three of these"):
        start_level(level_file(TWO)).after(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("UP", "up"), (" up ,Down,\nleft", "up, down, left"), ("up,up", "up, up"), ("up down", "up down"), ("x", "x")],
)
def test_spellings(level_file, text, canonical):
    assert start_level(level_file(TWO)).canonical(text) == canonical


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes": 0}, "boxes=0 must be a whole number from 1 to 4"),
        ({"size": 4}, "size=4 must be a whole number from 5 to 20"),
        ({"min_moves": 9, "max_moves": 8}, "min_moves=9 and max_moves=8"),
        ({"generator": "retrogade"}, "generator='retrogade' is unknown; choose one of: 'retrograde', 'gym-sokoban'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Sokoban(**options)


def test_level_files_take_no_sizes(level_file):
    with pytest.raises(ValueError, match="A level file fixes its levels. Remove the options boxes, size"):
        Sokoban(level_file(TWO), boxes=2, size=6)


def test_metrics_and_dead_positions(level_file):
    state = start_level(level_file(TWO))
    assert state.metrics() == {"distance_to_goal": 3.0, "dead": 0.0, "regret": 0.0}
    assert state.after("left, down").metrics() == {"distance_to_goal": 3.0, "dead": 0.0, "regret": 2.0}
    assert state.category == "2 boxes"
    assert start_level(level_file(CORRIDOR)).category == "1 box"
    state = start_level(level_file("; 0\n######\n#    #\n#.$@ #\n#    #\n######\n"))
    assert state.after("down, left, up").metrics() == {"dead": 1.0}


def test_rooms_are_a_function_of_the_generator():
    game = Sokoban()
    rngs = [np.random.default_rng(3), np.random.default_rng(3)]
    first_state, second_state = (game.initial_state(rng) for rng in rngs)
    assert first_state.room.level == second_state.room.level
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state
    assert game.initial_state(rngs[0]).room.level != first_state.room.level


def test_levels_of_a_file_are_searched_once(level_file):
    path = level_file(TWO)
    assert start_level(path).room is start_level(path).room


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda game_or_env: pickle.loads(pickle.dumps(game_or_env))]
)
@pytest.mark.parametrize("generator", ["retrograde", "file", pytest.param("gym-sokoban", marks=needs_gym_sokoban)])
def test_copies_of_games_and_environments_continue_as_the_original(level_file, copied, generator):
    levels = level_file(TWO) if generator == "file" else generator
    game, copied_game = Sokoban(levels), copied(Sokoban(levels))
    states = [state.initial_state(np.random.default_rng(4)).after("up, left") for state in (game, copied_game)]
    states.append(copied(states[0]))
    for move in MOVES * 5:
        views = [
            (state.observation(0), state.returns, state.metrics(), state.executed, state.player) for state in states
        ]
        assert views[0] == views[1] == views[2]
        if states[0].player is not None:
            states = [state.after(move) for state in states]
    env = gym.make("mage/Sokoban-v0", generator=str(levels))
    env.reset(seed=5)
    env.step("left, up")
    twin = copied(env) if copied is not copy.copy else copy.deepcopy(env)
    assert env.step("down, right") == twin.step("down, right")
    assert env.reset() == twin.reset()


def test_a_copy_of_a_search_answers_as_far_as_the_original():
    room = Sokoban(size=10, boxes=4, min_moves=30, max_moves=30).initial_state(np.random.default_rng(1)).room
    copied = pickle.loads(pickle.dumps(room))
    assert copied.level == room.level
    assert copied.search.distance(room.level.boxes, room.level.player, limit=10) == 30
    assert (copied.search.levels, copied.search.complete) == (room.search.levels, room.search.complete)
    while room.search.deepen():
        pass
    assert pickle.loads(pickle.dumps(room.search)).complete


def test_base_id_pays_the_moves_and_shows_metrics_in_info_alone():
    env = gym.make("mage/Sokoban-v0")
    expert = make_opponent("sokoban/expert:1", make_game("Sokoban"))
    for seed in range(10):
        observation, info = env.reset(seed=seed)
        distance = info["private"]["metrics"]["distance_to_goal"]
        assert 5 <= distance <= 21
        turns, terminated, reward = 0, False, 0.0
        while not terminated and turns < 6:
            assert "distance" not in observation
            observation, reward, terminated, _, info = env.step(expert.act(env.unwrapped.hand.turn(0)))
            turns += 1
            assert info["private"]["metrics"]["distance_to_goal"] == distance - turns
        if terminated:
            assert info["success"]
            assert reward == pytest.approx(10 + 2 - 0.1 * turns)


@pytest.mark.parametrize("options", [{}, {"boxes": 1}, {"boxes": 3}, {"size": 8}, {"size": 10}])
def test_the_expert_solves_everything_within_the_turns(options):
    env = gym.make("mage/Sokoban-v0", **options)
    expert = make_opponent("sokoban/expert", make_game("Sokoban"))
    for seed in range(15):
        env.reset(seed=seed)
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(expert.act(env.unwrapped.hand.turn(0)))
        assert info["success"]
        assert not info["timeout"]


def test_timeout_counts_the_earned_reward(level_file):
    env = gym.make("mage/Sokoban-v0", generator=str(level_file(TWO)), max_turns=1)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("left")
    assert (reward, terminated, info["success"], info["timeout"]) == (pytest.approx(0.9), True, False, True)


@pytest.mark.parametrize(("protocol", "solved", "unsolved"), [("adaptive", 10.0, -10.0), ("paper", 10 + 2 - 0.3, -0.9)])
def test_task_rewards_and_the_same_level_in_every_episode(level_file, protocol, solved, unsolved):
    env = gym.make("mage/Sokoban-Meta-v0", memory="none", protocol=protocol, max_turns=3)
    expert = make_opponent("sokoban/expert", make_game("Sokoban"))
    _, info = env.reset(seed=3)
    first_board, boards, returns, terminated = info["anchor"], [], [], False
    moves = info["private"]["metrics"]["distance_to_goal"]
    while not terminated:
        boards.append(info["anchor"])
        action = expert.act(env.unwrapped.hand.turn(0)) if info["episode_index"] == 1 else "up, down, up"
        _, reward, terminated, _, info = env.step(f"<action>{action}</action>")
        if info["episode_end"]:
            boards = []
            returns.append((reward, info["success"]))
            assert terminated or info["anchor"] == first_board
    assert len(returns) >= 2
    assert returns[0] == (pytest.approx(unsolved), False)
    if moves <= 9:
        assert returns[1] == (pytest.approx(10.0 if protocol == "adaptive" else 12 - 0.1 * moves), True)


def test_prompts_speak_of_no_opponent():
    env = gym.make("mage/Sokoban-Meta-v0")
    prompt, info = env.reset(seed=1)
    assert "each starts in the same state" in prompt
    while info["phase"] == "play":
        prompt, _, _, _, info = env.step("nothing")
    assert "opponent" not in prompt
    assert "distance" not in prompt


def test_success_is_said_by_the_game_and_not_by_the_sign():
    assert not is_success([HandResult(0.9, ended_by="timeout")])
    assert not is_success([HandResult(0.9, success=True), HandResult(-0.5, success=False)])
    assert is_success([HandResult(-10.5, success=True)])
    assert SETTINGS.rewards["task"]([], 1) == SETTINGS.rewards["released"]([], 1) == 0.0


def test_a_match_of_one():
    result = play_match(Sokoban(), [make_opponent("sokoban/expert", Sokoban())], np.random.default_rng(0), hands=5)
    assert (result.returns > 9).all()


def test_a_single_player_game_seats_no_opponent():
    with pytest.raises(ValueError, match="Sokoban has one player"):
        gym.make("mage/Sokoban-v0", opponent="uniform")


def test_moves_of_a_turn_equal_single_moves():
    rng = np.random.default_rng(5)
    for seed in range(20):
        joined = single = Sokoban().initial_state(np.random.default_rng(seed))
        while joined.player is not None and joined.executed < 60:
            moves = [MOVES[int(index)] for index in rng.integers(4, size=int(rng.integers(1, 4)))]
            joined = joined.after(", ".join(moves))
            for move in moves:
                if single.player is not None:
                    single = single.after(move)
            assert (joined.observation(0), joined.returns) == (single.observation(0), single.returns)


def test_pettingzoo_module_takes_free_text():
    from mage_envs.aec import sokoban_v0

    env = sokoban_v0.env()
    for seed in range(3):
        env.reset(seed=seed)
        expert = make_opponent("sokoban/expert", make_game("Sokoban"))
        while not env.terminations["player_0"]:
            observation, _, _, _, info = env.last()
            assert set(observation) == {"text"}
            assert info["legal_actions"] == MOVES
            env.step(expert.act(env.unwrapped.hand.turn(0)))
        assert env.rewards["player_0"] > 9
    env.reset(seed=0)
    env.step("jump")
    assert env.rewards == {"player_0": Sokoban.spec.min_return}
