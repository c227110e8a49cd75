"""The fast engine says what textworld's own engine says, word for word."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.game import StockEngine
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES
from tests.games.alfworld.engine.games import needs_engine, next_command, official_games, tiny

pytestmark = needs_engine


def compare_engines(game, steps, seed=0, plan=()):
    """Steps in which both engines agreed; `plan` is played before random commands."""
    rng = np.random.default_rng(seed)
    fast, stock = FastEngine(), StockEngine()
    for engine in (fast, stock):
        engine.load(game)
    state = fast.reset()
    assert state == stock.reset()
    commands = list(plan)
    for _ in range(steps):
        command = commands.pop(0) if commands else next_command(state.admissible_commands, rng)
        state = fast.step(command)
        assert state == stock.step(command), command
    fast.close()
    stock.close()
    return steps


@pytest.mark.parametrize("task_type", ["look_at_obj_in_light", "pick_two_obj_and_place"])
def test_tiny_games(task_type):
    game = tiny(task_type)
    plan = game["walkthrough"]
    assert compare_engines(game, len(plan) + 12, plan=plan)


def test_the_wording_of_the_older_release():
    game = tiny("pick_heat_then_place_in_recep")
    old = str(game["grammar"])
    for new, old_wording in (("arrive at {r.name}", "arrive at {lend.name}"), ("move {o} to {r}", "put {o} in/on {r}")):
        assert new in old
        old = old.replace(new, old_wording)
    plan = [
        command.replace("move", "put").replace(" to ", " in/on ") if "move" in command else command
        for command in game["walkthrough"]
    ]
    assert compare_engines({**game, "grammar": old}, len(plan) + 5, plan=plan)


def test_objects_are_examined_after_changes_to_them():
    game = tiny("pick_clean_then_place_in_recep")
    plan = game["walkthrough"]
    (clean,) = [number for number, command in enumerate(plan) if command.startswith("clean")]
    object_name = plan[clean].removeprefix("clean ").partition(" with ")[0]
    commands = [*plan[: clean + 1], f"examine {object_name}", "inventory", "look", "fly", *plan[clean + 1 :], "look"]
    assert compare_engines(game, len(commands), plan=commands)


def test_official_games():
    games = official_games()
    if not games:
        pytest.skip("ALFWORLD_DATA names no official games")
    assert sum(compare_engines(game, 5, seed) for seed, game in enumerate(games[:2])) == 10


@pytest.mark.slow
@pytest.mark.parametrize("path", official_games(), ids=lambda path: path.parent.parent.name)
def test_every_official_game(path):
    plan = json.loads(path.read_text())["walkthrough"] if "walkthrough" in path.read_text() else ()
    assert compare_engines(path, max(25, len(plan or ())), seed=1, plan=plan or ()) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("task_type", TASK_TYPES)
@pytest.mark.parametrize("size", ["tiny", "small", "official-like"])
def test_generated_games(size, task_type):
    game = make_game("eval_out_of_distribution", size, task_type, 1).data()
    plan = game["walkthrough"]
    assert compare_engines(game, len(plan) + 20, seed=2, plan=plan) >= 20
