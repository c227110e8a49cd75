"""Generated games: the same in every process, as large as asked, of disjoint splits, and won by their walkthrough."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from dev.alfworld_data import game_folder, trajectory
from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.maker import GAMES_PER_TASK, SIZES, SPLITS, make_game, task_ids
from mage_envs.games.alfworld.scenes import TASK_TYPES, UNSEEN_SCENES, affordances, scene, scenes_for

GOLDEN = Path(__file__).parent / "golden"
OUT = "eval_out_of_distribution"
IN = "eval_in_distribution"


def digests() -> str:
    """One game of each split, size and task type, with a digest of all that it holds."""
    lines = []
    for split in SPLITS:
        for size in SIZES:
            for task_type in TASK_TYPES:
                game = make_game(split, size, task_type, 7)
                text = "\n".join((game.problem, game.grammar, *game.walkthrough))
                lines.append(f"{game.id} {game_folder(game)} {sha256(text.encode()).hexdigest()[:16]}")
    return "\n".join(lines) + "\n"


def replay(game):
    """Plays the walkthrough; returns won after each command, the start first."""
    engine = FastEngine()
    engine.load(game.data())
    states = [engine.reset()]
    for command in game.walkthrough:
        assert command in states[-1].admissible_commands, (game.id, command)
        states.append(engine.step(command))
    engine.close()
    return [state.won for state in states]


def test_games_are_as_recorded():
    assert digests() == (GOLDEN / "games.txt").read_text("utf-8"), (
        "Generated games changed. If it is meant: python -m tests.games.alfworld.test_golden --write"
    )


def test_the_same_in_another_process():
    script = "from tests.games.alfworld.test_maker import digests; print(digests(), end='')"
    printed = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "3", "PYTHONPATH": ".", "PATH": ""},
    ).stdout
    assert printed == digests()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_walkthroughs_win_at_their_last_command(split, task_type):
    for index in range(3):
        won = replay(make_game(split, "tiny", task_type, index))
        assert won == [False] * (len(won) - 1) + [True]


@pytest.mark.more
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_walkthroughs_win_in_large_rooms(task_type):
    for size in ("small", "official-like"):
        won = replay(make_game("train", size, task_type, 1))
        assert won == [False] * (len(won) - 1) + [True]


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_walkthroughs_win_in_a_hundred_and_eighty_large_rooms(split):
    for task_type in TASK_TYPES:
        for index in range(10):
            won = replay(make_game(split, "official-like", task_type, index))
            assert won == [False] * (len(won) - 1) + [True]


def test_splits_share_no_scene_and_no_goal():
    goals = {}
    for split, count in (("train", 60), (IN, 24), (OUT, 24)):
        games = [make_game(split, "tiny", task_type, index) for task_type in TASK_TYPES for index in range(count)]
        assert all((game.scene in UNSEEN_SCENES) == (split == OUT) for game in games)
        assert len({game.problem for game in games}) == len(games)
        goals[split] = {(game.task_type, game.object_type, game.parent_type, game.scene) for game in games}
    assert not goals["train"] & goals[IN]
    scenes = {split: {goal[-1] for goal in split_goals} for split, split_goals in goals.items()}
    assert scenes["train"] & scenes[IN]
    assert scenes[OUT] == set(UNSEEN_SCENES)


def counts(game):
    problem = game.problem.partition("(:goal")[0]
    receptacles, things = problem.count("(receptacleAtLocation"), problem.count("(pickupable")
    return receptacles, things


@pytest.mark.parametrize(("size", "max_receptacles"), [("tiny", 6), ("small", 12), ("official-like", 54)])
def test_sizes(size, max_receptacles):
    sizes = [counts(make_game("train", size, task_type, index)) for task_type in TASK_TYPES for index in range(20)]
    low, high = SIZES[size].objects
    assert max(receptacles for receptacles, _ in sizes) <= max_receptacles
    assert max(things for _, things in sizes) <= high
    assert statistics.median(things for _, things in sizes) >= low
    if size == "official-like":  # the official medians are 20 receptacles and 38 objects
        assert 15 <= statistics.median(receptacles for receptacles, _ in sizes) <= 28
        assert 28 <= statistics.median(things for _, things in sizes) <= 48


def test_every_object_is_where_it_may_be():
    holds = affordances().holds
    for task_type in TASK_TYPES:
        game = make_game("train", "official-like", task_type, 3)
        kinds = dict(
            re.findall(r"\((?:receptacleType|objectType) (\S+) (\w+)Type\)", game.problem.partition("(:goal")[0])
        )
        places = dict(re.findall(r"\(receptacleAtLocation (\S+) (\S+)\)", game.problem))
        stands = dict(re.findall(r"\(objectAtLocation (\S+) (\S+)\)", game.problem))
        inside = re.findall(r"\(inReceptacle (\S+) (\w+)\)", game.problem)
        assert inside
        for object_id, receptacle in inside:
            if object_id.startswith("?"):
                continue
            assert kinds[object_id] == "DeskLamp" or kinds[object_id] in holds[kinds[receptacle]]
            assert stands[object_id] == places[receptacle]
            assert not (kinds[object_id] == game.object_type and kinds[receptacle] == game.parent_type)
        assert re.search(r"\(atLocation agent1 (\S+)\)", game.problem).group(1) not in places.values()


def test_sentences_and_metadata():
    sentences = set()
    for task_type in TASK_TYPES:
        for index in range(12):
            game = make_game("train", "tiny", task_type, index)
            sentences.add(re.search(r'Your task is to: ([^"]*)', game.grammar).group(1).split(" ")[0])
            annotation = trajectory(game)
            assert annotation["task_type"] == task_type
            assert annotation["pddl_params"]["object_target"] == game.object_type
            assert bool(annotation["pddl_params"]["toggle_target"]) == (task_type == "look_at_obj_in_light")
            assert "UNKNOWN GOAL" not in game.grammar
    assert sentences >= {"put", "clean", "heat", "cool", "look", "examine", "find"}


def test_scenes():
    assert scene(10).number == 10
    assert len(scenes_for("pick_heat_then_place_in_recep", unseen=False)) == 29
    assert scenes_for("pick_and_place_simple", unseen=True) == (424, 308, 10, 219)
    for number in UNSEEN_SCENES:
        assert {furniture.type for furniture in scene(number).places} <= set(affordances().holds)
        assert scene(number).points


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("test", "tiny", TASK_TYPES[0], 0), "split='test' is unknown; choose one of: train, eval_in_distribution"),
        (("train", "huge", TASK_TYPES[0], 0), "size='huge' is unknown; choose one of: official-like, small, tiny"),
        (("train", "tiny", "pick", 0), "task_type='pick' is unknown; choose one of: pick_and_place_simple"),
        (("train", "tiny", TASK_TYPES[0], 600), "train has the games 0 to 599 of each task type, got 600"),
        ((IN, "tiny", TASK_TYPES[0], -1), "eval_in_distribution has the games 0 to 23 of each task type, got -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_game(*arguments)


def test_as_many_games_as_the_official_splits():
    assert [6 * GAMES_PER_TASK[split] for split in SPLITS] == [3600, 144, 144]
    assert [len(set(task_ids(split, "tiny"))) for split in SPLITS] == [3600, 144, 144]
    assert task_ids(IN, "small")[:2] == (f"{IN}/small/pick_and_place_simple/0", f"{IN}/small/look_at_obj_in_light/0")


def test_no_known_plan_of_an_evaluation_game_is_longer_than_ten_commands():
    """The panels state their limits: the paper's limit is 10 turns, the default 30."""
    for split in (IN, OUT):
        lengths = [
            len(make_game(split, "official-like", task_type, index).walkthrough)
            for task_type in TASK_TYPES
            for index in range(GAMES_PER_TASK[split])
        ]
        assert max(lengths) <= 10
        assert 5.5 < statistics.mean(lengths) < 6.5
