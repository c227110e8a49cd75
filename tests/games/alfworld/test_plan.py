"""Plans by construction: both dialects, all six kinds of goal, no shorter plan, errors that name the missing part."""

from __future__ import annotations

import pytest

from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.plan import NoPlan, shortest_plan

GRAMMAR = """
action GotoLocation {{ template :: "go to [{{r.name | receptacleatlocation(r:receptacle, lend:location)}}]"; }}
action OpenObject {{ template :: "open {{r}}"; }}
action PickupObject {{ template :: "take {{o}} from {{r}}"; }}
action PutObject {{ template :: "{put}"; }}
action CleanObject {{ template :: "clean {{o}} with {{r}}"; }}
action ToggleObject {{ template :: "use {{o}}"; }}
"""
OLD = GRAMMAR.format(put="put {o} in/on {r}")
NEW = GRAMMAR.format(put="move {o} to {r}")
FACTS = """
(atLocation agent1 loc_0)
(receptacleType Drawer_bar_a DrawerType) (receptacleAtLocation Drawer_bar_a loc_1) (openable Drawer_bar_a)
(receptacleType Drawer_bar_b DrawerType) (receptacleAtLocation Drawer_bar_b loc_1) (openable Drawer_bar_b)
(receptacleType Desk_bar_c DeskType) (receptacleAtLocation Desk_bar_c loc_2)
(receptacleType Sink_bar_d_bar_SinkBasin SinkBasinType) (receptacleAtLocation Sink_bar_d_bar_SinkBasin loc_3)
(canContain DrawerType ClothType) (canContain DeskType ClothType) (canContain SinkBasinType ClothType)
(objectType Cloth_bar_1 ClothType) (pickupable Cloth_bar_1) (cleanable Cloth_bar_1)
(inReceptacle Cloth_bar_1 Drawer_bar_a) (objectAtLocation Cloth_bar_1 loc_1)
(objectType Cloth_bar_2 ClothType) (pickupable Cloth_bar_2) (cleanable Cloth_bar_2)
(inReceptacle Cloth_bar_2 Drawer_bar_b) (objectAtLocation Cloth_bar_2 loc_1)
(objectType DeskLamp_bar_3 DeskLampType) (toggleable DeskLamp_bar_3)
(inReceptacle DeskLamp_bar_3 Desk_bar_c) (objectAtLocation DeskLamp_bar_3 loc_2)
"""


def problem(goal: str, facts: str = FACTS) -> str:
    return f"(define (problem x) ; a comment with a ) in it\n (:domain alfred) (:init {facts}) (:goal (and {goal})))"


SIMPLE = "(exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) (objectType ?o ClothType) (receptacleType ?r {}Type))))"  # noqa: E501
CLEAN = "(exists (?r - receptacle ?o - object) (and (objectType ?o ClothType) (receptacleType ?r DeskType) (isClean ?o) (inReceptacle ?o ?r)))"  # noqa: E501
TWO = "(exists (?r - receptacle ?o1 - object ?o2 - object) (and (objectType ?o1 ClothType) (objectType ?o2 ClothType) (not (= ?o1 ?o2)) (receptacleType ?r DeskType) (inReceptacle ?o1 ?r) (inReceptacle ?o2 ?r)))"  # noqa: E501
LAMP = "(exists (?ot - object) (and (objectType ?ot DeskLampType) (isToggled ?ot))) (exists (?o - object ?a - agent) (and (objectType ?o ClothType) (holds ?a ?o)))"  # noqa: E501


def test_both_dialects():
    start = ("go to drawer 2", "open drawer 2", "take cloth 2 from drawer 2", "go to desk 1")
    assert shortest_plan(problem(SIMPLE.format("Desk")), OLD) == (*start, "put cloth 2 in/on desk 1")
    assert shortest_plan(problem(SIMPLE.format("Desk")), NEW) == (*start, "move cloth 2 to desk 1")


def test_cleaning_goes_by_the_sink():
    assert shortest_plan(problem(CLEAN), NEW)[3:] == (
        "go to sinkbasin 1",
        "clean cloth 2 with sinkbasin 1",
        "go to desk 1",
        "move cloth 2 to desk 1",
    )


def test_two_from_one_place_open_each_drawer_once():
    plan = shortest_plan(problem(TWO), NEW)
    assert len(plan) == 10
    assert sorted(command for command in plan if command.startswith("open")) == ["open drawer 1", "open drawer 2"]


def test_one_of_two_is_there_already():
    facts = FACTS.replace("(inReceptacle Cloth_bar_1 Drawer_bar_a)", "(inReceptacle Cloth_bar_1 Desk_bar_c)")
    assert shortest_plan(problem(TWO, facts), NEW) == (
        "go to drawer 1",
        "open drawer 1",
        "take cloth 1 from drawer 1",
        "go to desk 1",
        "move cloth 1 to desk 1",
    )


def test_looking_needs_the_lamp_and_no_second_walk():
    assert shortest_plan(problem(LAMP), NEW)[-2:] == ("go to desk 1", "use desklamp 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(define (problem x)", "brackets do not match"),
        ("(define))", "an extra closing bracket"),
        ("", "brackets do not match"),
        ("(define (:init))", "no (:init ...) or no (:goal ...)"),
        (problem("(isSliced ?o)"), "none of the six kinds"),
        (problem(SIMPLE.format("Bed")), "nothing in the problem fits its goal"),
        (problem(CLEAN, FACTS.replace("SinkBasinType)", "ShelfType)")), "nothing in the problem fits its goal"),
        (problem(LAMP, FACTS.replace("(toggleable DeskLamp_bar_3)", "")), "nothing in the problem fits its goal"),
    ],
)
def test_what_has_no_plan(text, message):
    with pytest.raises(NoPlan) as raised:
        shortest_plan(text, NEW)
    assert message in str(raised.value)


def test_a_grammar_without_the_action():
    with pytest.raises(NoPlan, match="the grammar has no action PutObject"):
        shortest_plan(problem(SIMPLE.format("Desk")), NEW.replace("PutObject", "Put"))


@pytest.mark.parametrize("task_type", ["pick_and_place_simple", "look_at_obj_in_light"])
def test_no_shorter_sequence_of_commands_wins(task_type):
    """All sequences are tried in the engine; what moves nothing (look, examine, inventory, help) is left out."""
    index = next(index for index in range(50) if len(make_game("train", "tiny", task_type, index).walkthrough) == 4)
    engine = FastEngine()
    engine.load(make_game("train", "tiny", task_type, index).data())
    tried = 0

    def after(commands):
        state = engine.reset()
        for command in commands:
            state = engine.step(command)
        return state

    def search(commands):
        nonlocal tried
        state = after(commands)
        tried += 1
        assert not state.won, commands
        if len(commands) < 3:
            for command in state.admissible_commands:
                if command.split(" ")[0] not in ("look", "examine", "inventory", "help"):
                    search((*commands, command))

    search(())
    engine.close()
    assert tried > 100
