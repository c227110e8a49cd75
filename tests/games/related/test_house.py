"""ALFWorldHouse: houses and their tasks, the countdown of steps, and players with and without knowledge."""

from __future__ import annotations

import os
import pickle
import re

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import IllegalAction, make_game
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.games.alfworld.houses import FACTS, HOUSES, LONGEST, TASKS
from mage_envs.games.alfworld.plan import read_problem
from mage_envs.games.alfworld_house import ALFWorldHouse
from tests.contract import check_id


def play(game: ALFWorldHouse, task_id: str):
    """Return the last state of a shortest plan."""
    state = game.start_task(task_id)
    for command in game.plan(task_id):
        state = state.after(command)
    return state


def test_no_task_comes_twice_and_houses_are_disjoint() -> None:
    game = ALFWorldHouse()
    for seed in range(10_000):
        assert sorted(game.errand(np.random.default_rng(seed), number) for number in range(TASKS)) == list(range(TASKS))
    houses = {fact: game.house(fact) for facts in FACTS.values() for fact in facts}
    assert len({house.text.problem for house in houses.values()}) == len(houses) == 2 * HOUSES
    # So a learner that knows the houses needs no memory, as docs/headroom.md says.
    problems = [read_problem(house.text.problem) for house in houses.values()]
    assert len(
        {frozenset(problem.names[receptacle] for receptacle in problem.receptacle_type) for problem in problems}
    ) == len(houses)
    for house in houses.values():
        assert len({task.object_kind for task in house.tasks}) == TASKS
        assert all(0 < len(task.plan) <= LONGEST for task in house.tasks)


def test_an_episode_alone_is_that_of_the_series() -> None:
    env = gym.make("mage/ALFWorldHouse-v0", opponent="house:train1")
    game = make_game("ALFWorldHouse")
    for episode in (2, 0, 1):
        observation, _ = env.reset(seed=5, options={"episode": episode})
        rng = env.unwrapped._streams.at(0).generator()
        assert observation == game.series_state(rng, episode).after("train1").observation(0)


def test_the_first_text_shows_the_furniture_and_no_contents() -> None:
    game = ALFWorldHouse()
    for fact in ("train0", "train7", "eval3"):
        house = game.house(fact)
        state = game.begin(2, fact)
        contents = {object_name for things in house.contents.values() for object_name in things}
        assert contents
        assert not any(re.search(rf"\b{object_name}\b", state.observation(0)) for object_name in contents)
        assert not any(object_name in command for object_name in contents for command in state.legal_actions)
        # The id and the class are the same in every house.
        assert (state.task_id, state.category) == ("2", None)


@pytest.mark.parametrize("number", range(0, 2 * HOUSES, 8))
def test_a_shortest_plan_wins_a_task_of_a_house(number: int) -> None:
    game = ALFWorldHouse(slack=0)
    fact = game.kinds_of_fact[number]
    state = play(game, f"{fact}/{number % TASKS}")
    assert (state.won(0), state.returns, state.left) == (True, (1.0,), 0)


@pytest.mark.slow
def test_every_task_is_solved_in_every_house() -> None:
    game = ALFWorldHouse(slack=0)
    for fact in game.kinds_of_fact:
        for number in range(TASKS):
            assert play(game, f"{fact}/{number}").won(0)


def test_the_rules() -> None:
    game = ALFWorldHouse(slack=1)
    steps = len(game.plan("eval0/0")) + 1
    state = game.begin(0, "eval0")
    assert state.observation(0).endswith(f"Steps left: {steps}")
    with pytest.raises(IllegalAction):
        state.after("fly to fridge 1")
    assert state.left == steps
    for steps_left in range(steps - 1, -1, -1):
        state = state.after("inventory")
        assert f"Steps left: {steps_left}" in state.observation(0)
    assert (state.player, state.won(0), state.returns, state.legal_actions) == (None, False, (0.0,), ())
    assert state.observation(0).endswith("The task is not done, and no step is left.")
    assert state.metrics() == {"commands": steps, "plan_length": steps - 1}
    copied = pickle.loads(pickle.dumps(state))
    assert (copied.observation(0), copied.left, copied.task_id) == (state.observation(0), 0, "0")
    assert ALFWorldHouse(turns=10).begin(0, "eval0").left == 10
    receptacle, objects = next(iter(game.house("eval0").contents.items()))
    assert f"{receptacle} holds {', '.join(objects)}" in game.describe("eval0")
    for options in ({"slack": -1}, {"turns": 0}, {"size": "huge"}):
        with pytest.raises(ValueError, match=r"slack|turns|size"):
            ALFWorldHouse(**options)
    with pytest.raises(ValueError, match="'eval99' is unknown"):
        gym.make("mage/ALFWorldHouse-v0", opponent="house:eval99")


def test_the_players() -> None:
    """The plan wins always, memory is worth something, and a wrong memory is at or below none."""
    houses = ("house:eval0", "house:eval1", "house:eval2", "house:eval3")
    tasks = [task for task in named_panel("house-related-16").tasks() if task.opponent in houses]
    assert len(tasks) == 12
    rows = {}
    for name in ("blind", "memory", "known", "plan", "wrong"):
        trajectories = evaluate(make_agent(f"policy:house/{name}"), tasks, {"reveal_opponent": True})
        overall = summarise(trajectories, ALFWorldHouse()).overall
        assert not overall.failures
        rows[name] = [episode.success.estimate.mean for episode in overall.episodes]
    assert rows["plan"] == [1.0] * 3
    assert len(set(rows["blind"])) == 1, "rotations give every episode the same tasks"
    assert rows["memory"][0] == rows["blind"][0]
    assert rows["blind"][2] < rows["memory"][2] <= rows["known"][2]
    assert rows["wrong"][2] <= rows["blind"][2]
    with pytest.raises(RuntimeError, match="reveal_opponent=True"):
        evaluate(make_agent("policy:house/known"), tasks[:1])


def test_the_contract() -> None:
    check_id("mage/ALFWorldHouse-v0", opponent="house:train2")


@pytest.mark.skipif("ALFWORLD_DATA" not in os.environ, reason="ALFWORLD_DATA names no folder")
def test_official_games_are_houses() -> None:
    game = ALFWorldHouse(data="official")
    house = game.house("eval0")
    assert len(house.tasks) == TASKS
    for number in (0, TASKS - 1):
        state = game.start_task(f"eval0/{number}")
        assert state.observation(0).count("Your task is to: ") == 1
        assert play(game, f"eval0/{number}").won(0)
