"""The expert reads text only: it wins, and it wins faster if it played the game before in the meta-episode."""

from __future__ import annotations

import os

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import make_game
from mage_envs.core import Turn
from mage_envs.games.alfworld.data import NoGames
from mage_envs.games.alfworld.game import ALFWorld
from mage_envs.games.alfworld.maker import SPLITS
from mage_envs.games.alfworld.scenes import TASK_TYPES, wording
from mage_envs.hand import Hand, open_table
from mage_envs.opponents import make_opponent
from mage_envs.opponents.solo.alfworld import ALFWorldExpert, read_task
from mage_envs.random.streams import Streams
from tests.packages import mark_params

HERE = "ALFWORLD_DATA" in os.environ
OFFICIAL = os.environ.get("ALFWORLD_DATA", "")


def commands(game, expert, task, episode=0, max_commands=200):
    """How many the expert needs for that task."""
    hand = Hand(game)
    hand.begin_episode(Streams(0), episode=episode, task_id=task)
    hand.deal(open_table(1))
    expert.reset(np.random.default_rng(0))
    count = 0
    while not hand.over:
        turn = hand.turn(0)
        action = expert.act(turn)
        assert action in turn.legal_actions
        hand.play(action)
        count += 1
        assert count < max_commands, (task, action)
    return count


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task_type", mark_params(TASK_TYPES, step=3))
def test_small_games_are_won_and_won_faster_the_second_time(split, task_type):
    game, expert = ALFWorld(split, size="tiny", task_types=task_type), ALFWorldExpert()
    for number in range(4):
        task = f"{split}/tiny/{task_type}/{number}"
        first_count, second_count = commands(game, expert, task), commands(game, expert, task, 1)
        assert first_count <= 20
        assert len(game.plan(task)) <= second_count <= first_count
        assert second_count <= len(game.plan(task)) + 1


@pytest.mark.more
@pytest.mark.parametrize("split", SPLITS[1:])
def test_large_games_are_won_within_the_turns(split):
    game, expert = ALFWorld(split), ALFWorldExpert()
    for task_type in TASK_TYPES:
        assert commands(game, expert, f"{split}/official-like/{task_type}/0") <= 50


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS[1:])
def test_every_game_for_evaluation_is_won_within_the_turns(split):
    game, expert = ALFWorld(split), ALFWorldExpert()
    for task_type in TASK_TYPES:
        for number in range(24):
            assert commands(game, expert, f"{split}/official-like/{task_type}/{number}") <= 50


def test_what_it_saw_is_forgotten_with_the_meta_episode():
    game, expert = ALFWorld(size="tiny"), ALFWorldExpert()
    task = "train/tiny/pick_heat_then_place_in_recep/0"
    counts = [commands(game, expert, task, episode) for episode in (0, 1, 2, 0)]
    assert counts[0] == counts[3] > counts[1] == counts[2]


def test_a_room_that_has_changed_is_searched_again():
    """Earlier episodes neither help nor hurt if a later episode has another game."""
    game, expert = ALFWorld(size="tiny"), ALFWorldExpert()
    for number in range(6):
        assert commands(game, expert, f"train/tiny/pick_cool_then_place_in_recep/{number}", min(number, 1)) < 20


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_sentence_is_understood(task_type):
    for sentence in wording(task_type).sentences:
        task_text = sentence.format(obj="soapbar", recep="toilet", toggle="desklamp", mrecep="")
        task = read_task(f"You are in a room.\n\nYour task is to: {task_text}.")
        assert task is not None
        assert task.object_kind == "soapbar"
        assert (task.parent, task.lamp) == (("", "desklamp") if "look_at" in task_type else ("toilet", ""))
        assert task.number == (2 if "two" in task_type else 1)
        assert task.verb == next((verb for verb in ("clean", "heat", "cool") if verb in task_type), "")


def test_what_it_does_not_understand_it_answers_with_something_legal():
    expert = ALFWorldExpert()
    for text in ("", "Your task is to: sing.", "Your task is to: put a x in y.", "you see a b 1"):
        expert.reset(np.random.default_rng(0))
        for legal in (("look",), ("a", "b"), ()):
            assert expert.act(Turn(0, text, legal, text)) in (*legal, "look")


@pytest.mark.parametrize("name", ["alfworld/expert", "alfworld/expert-without-memory"])
def test_it_plays_through_the_meta_id(name):
    env = gym.make("mage/ALFWorld-Meta-v0", size="tiny", memory="none")
    expert = make_opponent(name, make_game("ALFWorld"))
    _, info = env.reset(seed=4)
    hand, episode, lengths, count, terminated = env.unwrapped.hand, -1, [], 0, False
    while not terminated:
        if info["episode_index"] != episode:
            expert.reset(np.random.default_rng(0))
            episode = info["episode_index"]
        _, _, terminated, _, info = env.step(f"<action>{expert.act(hand.turn(0))}</action>")
        count += 1
        if info["episode_end"]:
            assert info["success"]
            lengths.append(count)
            count = 0
    assert len(lengths) == 3
    assert lengths[1] == lengths[2]
    assert lengths[0] > lengths[1] if name == "alfworld/expert" else lengths[0] == lengths[1]


@pytest.mark.skipif(not HERE, reason="ALFWORLD_DATA does not name the official data")
def test_official_games_are_won():
    lost, num_played = [], 0
    for split in SPLITS:
        try:
            game = ALFWorld(split, data=OFFICIAL)
        except NoGames:
            continue
        expert = ALFWorldExpert()
        for seed in range(12):
            task = game.initial_state(np.random.default_rng(seed)).task_id
            num_played += 1
            if commands(game, expert, task) > 50:
                lost.append(task)
    assert num_played
    assert len(lost) <= num_played / 18, lost
