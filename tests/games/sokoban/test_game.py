"""The rules, the text, the rewards and the metrics of Sokoban, and its place in the environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs import HandResult, IllegalAction, make_game, play_match
from mage_envs.games.sokoban import Sokoban
from mage_envs.games.sokoban.level import MOVES
from opponents import make_opponent

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
#+ $*.#
#$    #
#######
"""


@pytest.fixture
def level_file(tmp_path):
    def write(text):
        path = tmp_path / "levels.txt"
        path.write_text(text)
        return path

    return write


def started(path):
    game = Sokoban(path)
    game.reset(np.random.default_rng(0))
    return game


def test_board_and_symbols(level_file):
    game = started(level_file(STARTED))
    assert game.observe(0) == "Row 1: # # # # # # #\nRow 2: # S _ X √ O #\nRow 3: # X _ _ _ _ #\nRow 4: # # # # # # #"
    game.apply("right")
    assert "Row 2: # O P X √ O #" in game.observe(0)


def test_rows_of_large_boards_are_numbered_in_line():
    game = Sokoban(size=10)
    game.reset(np.random.default_rng(0))
    lines = game.observe(0).splitlines()
    assert [line[:7] for line in lines] == [f"Row {number:>2}:" for number in range(1, 11)]
    assert len({len(line) for line in lines}) == 1


def test_what_follows_the_solving_move_is_not_executed(level_file):
    game = started(level_file(CORRIDOR))
    game.apply("right, right")
    assert (game.executed, game.returns()) == (2, (0.0,))
    game.apply("right, right, left")
    assert game.executed == 3
    assert game.current_player() is None
    assert game.legal_actions() == ()
    assert game.observe(0).endswith(
        "Row 2: # _ _ _ P √ _ #\nRow 3: # # # # # # # #\nThe level is solved: every box is on a target."
    )
    assert game.returns() == (pytest.approx(10 + 1 - 0.3),)
    with pytest.raises(IllegalAction):
        game.apply("left")


def test_blocked_moves_are_legal_and_cost_their_tenth(level_file):
    game = started(level_file(TWO))
    before = game.observe(0)
    game.apply("up, up")
    assert game.observe(0) == before
    assert game.so_far() == pytest.approx(-0.2)
    game.apply("left")
    assert game.so_far() == pytest.approx(-0.3 + 1)
    game.apply("left")
    assert game.so_far() == pytest.approx(-0.4 + 1)


def test_boxes_that_start_on_targets_pay_when_they_leave_and_return(level_file):
    game = started(level_file(STARTED))
    game.apply("right, right")
    assert game.so_far() == pytest.approx(-0.2)  # two boxes in a row do not move
    game.apply("down, right, up")
    game.apply("down")
    assert game.so_far() == pytest.approx(-0.6)


@pytest.mark.parametrize(
    "text", ["", "go", "up down", "up,", ",up", "up,,up", "up, up, up, up", "u p", "1", "up;down", "up, " * 100]
)
def test_illegal_actions_change_nothing(level_file, text):
    game = started(level_file(TWO))
    before = game.observe(0)
    with pytest.raises(IllegalAction, match="choose one of: up, down, left, right, or up to three of these"):
        game.apply(text)
    assert (game.observe(0), game.executed) == (before, 0)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("UP", "up"), (" up ,Down,\nleft", "up, down, left"), ("up,up", "up, up"), ("up down", "up down"), ("x", "x")],
)
def test_spellings(text, canonical):
    assert Sokoban().canonical(text) == canonical


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
    with pytest.raises(ValueError, match="A level file fixes its levels: leave boxes, size out"):
        Sokoban(level_file(TWO), boxes=2, size=6)


def test_metrics_and_dead_positions(level_file):
    game = started(level_file(TWO))
    assert game.metrics() == {"distance_to_goal": 3.0, "dead": 0.0, "regret": 0.0}
    game.apply("left, down")
    assert game.metrics() == {"distance_to_goal": 3.0, "dead": 0.0, "regret": 2.0}
    assert game.category() == "2 boxes"
    assert started(level_file(CORRIDOR)).category() == "1 box"
    game = started(level_file("; 0\n######\n#    #\n#.$@ #\n#    #\n######\n"))
    game.apply("down, left, up")
    assert game.metrics() == {"dead": 1.0}


def test_a_room_comes_again_from_the_same_state_and_leaves_the_generator_as_if_it_were_made_anew():
    game, fresh = Sokoban(), Sokoban()
    rng = np.random.default_rng(3)
    game.reset(rng)
    room, text = game.room, game.observe(0)
    game.apply("up, left")
    again = np.random.default_rng(3)
    game.reset(again)
    assert game.room is room
    assert (game.observe(0), game.executed) == (text, 0)
    assert again.bit_generator.state == rng.bit_generator.state
    game.reset(again)
    fresh.reset(rng)
    assert game.room is not room
    assert game.observe(0) == fresh.observe(0)


def test_base_id_pays_the_moves_and_shows_metrics_in_info_alone():
    env = gym.make("mage/Sokoban-v0")
    expert = make_opponent("sokoban/expert:1", make_game("Sokoban"))
    for seed in range(10):
        observation, info = env.reset(seed=seed)
        distance = info["metrics"]["distance_to_goal"]
        assert 5 <= distance <= 21
        turns, done, reward = 0, False, 0.0
        while not done and turns < 6:
            assert "distance" not in observation
            observation, reward, done, _, info = env.step(expert.act(env.unwrapped.turn()))
            turns += 1
            assert info["metrics"]["distance_to_goal"] == distance - turns
        if done:
            assert info["success"]
            assert reward == pytest.approx(10 + 2 - 0.1 * turns)


@pytest.mark.parametrize("options", [{}, {"boxes": 1}, {"boxes": 3}, {"size": 8}, {"size": 10}])
def test_the_expert_solves_everything_within_the_turns(options):
    env = gym.make("mage/Sokoban-v0", **options)
    expert = make_opponent("sokoban/expert", make_game("Sokoban"))
    for seed in range(15):
        env.reset(seed=seed)
        done = False
        while not done:
            _, _, done, _, info = env.step(expert.act(env.unwrapped.turn()))
        assert info["success"]
        assert not info["timeout"]


def test_timeout_counts_what_was_earned(level_file):
    env = gym.make("mage/Sokoban-v0", generator=str(level_file(TWO)), max_turns=1)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("left")
    assert (reward, terminated, info["success"], info["timeout"]) == (pytest.approx(0.9), True, False, True)


@pytest.mark.parametrize(("protocol", "solved", "unsolved"), [("adaptive", 10.0, -10.0), ("paper", 10 + 2 - 0.3, -0.9)])
def test_task_rewards_and_the_same_level_in_every_episode(level_file, protocol, solved, unsolved):
    env = gym.make("mage/Sokoban-Meta-v0", memory="none", protocol=protocol, max_turns=3)
    expert = make_opponent("sokoban/expert", make_game("Sokoban"))
    _, info = env.reset(seed=3)
    first, boards, returns, done = info["anchor"], [], [], False
    moves = info["metrics"]["distance_to_goal"]
    while not done:
        boards.append(info["anchor"])
        inner = env.get_wrapper_attr("game_env")
        action = expert.act(inner.turn()) if info["episode"] == 1 else "up, down, up"
        _, reward, done, _, info = env.step(f"<action>{action}</action>")
        if info["episode_end"]:
            boards = []
            returns.append((reward, info["success"]))
            assert done or info["anchor"] == first
    assert len(returns) >= 2
    assert returns[0] == (pytest.approx(unsolved), False)
    if moves <= 9:
        assert returns[1] == (pytest.approx(10.0 if protocol == "adaptive" else 12 - 0.1 * moves), True)


def test_prompts_speak_of_no_opponent():
    env = gym.make("mage/Sokoban-Meta-v0")
    prompt, info = env.reset(seed=1)
    assert "each starts from the same task" in prompt
    while info["phase"] == "play":
        prompt, _, _, _, info = env.step("nothing")
    assert "plays against you" not in prompt
    assert "whoever you face" not in prompt
    assert "distance" not in prompt


def test_success_is_said_by_the_game_and_not_by_the_sign():
    game = Sokoban()
    assert not game.is_success([HandResult(0.9, True)])
    assert not game.is_success([HandResult(0.9, success=True), HandResult(-0.5, success=False)])
    assert game.is_success([HandResult(10.5, success=True)])
    assert Sokoban.rewards["task"]([], 1) == Sokoban.rewards["released"]([], 1) == 0.0


def test_a_match_of_one():
    result = play_match(Sokoban(), [make_opponent("sokoban/expert", Sokoban())], np.random.default_rng(0), hands=5)
    assert (result.returns > 9).all()


def test_nobody_can_be_seated():
    with pytest.raises(ValueError, match="Sokoban has one player"):
        gym.make("mage/Sokoban-v0", opponent="uniform")


def test_moves_of_a_turn_equal_single_moves():
    rng = np.random.default_rng(5)
    for seed in range(20):
        joined, single = Sokoban(), Sokoban()
        joined.reset(np.random.default_rng(seed))
        single.reset(np.random.default_rng(seed))
        while joined.current_player() is not None and joined.executed < 60:
            moves = [MOVES[int(index)] for index in rng.integers(4, size=int(rng.integers(1, 4)))]
            joined.apply(", ".join(moves))
            for move in moves:
                if single.current_player() is not None:
                    single.apply(move)
            assert (joined.observe(0), joined.so_far()) == (single.observe(0), single.so_far())


def test_pettingzoo_module_takes_free_text():
    from mage_envs.zoo import sokoban_v0

    env = sokoban_v0.env()
    for seed in range(3):
        env.reset(seed=seed)
        expert = make_opponent("sokoban/expert", make_game("Sokoban"))
        while not env.terminations["player_0"]:
            observation, _, _, _, info = env.last()
            assert set(observation) == {"text"}
            assert info["legal_actions"] == MOVES
            env.step(expert.act(env.unwrapped.game.turn(0)))
        assert env.rewards["player_0"] > 9
    env.reset(seed=0)
    env.step("jump")
    assert env.rewards == {"player_0": Sokoban.min_return}
