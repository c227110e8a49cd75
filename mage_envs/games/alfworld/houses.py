"""Houses of ALFWorldHouse: the room of a game file with the places of all things, and other tasks in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from mage_envs.games.alfworld.game import source_of
from mage_envs.games.alfworld.gamefile import GameText, read_game
from mage_envs.games.alfworld.maker import SPLITS
from mage_envs.games.alfworld.plan import Dialect, NoPlan, PlanGoal, Problem, plan_for, read_problem
from mage_envs.games.alfworld.scenes import TASK_TYPES, wording

HOUSES, TASKS = 24, 8
"""Number of houses of training and of evaluation, and number of tasks in each."""
PARTS: Mapping[str, str] = {"train": SPLITS[0], "eval": SPLITS[1]}
"""First part of a house's name to the split of ALFWorld whose games are its houses."""
FACTS = {part: tuple(f"{part}{number}" for number in range(HOUSES)) for part in PARTS}
"""Names of the houses: `train0` to `train23`, which training may meet, and `eval0` to `eval23`."""
LONGEST = 12
"""Maximum commands of a task's shortest plan."""
_STATES = {
    "pick_clean_then_place_in_recep": "isclean",
    "pick_heat_then_place_in_recep": "ishot",
    "pick_cool_then_place_in_recep": "iscool",
}
_ENTROPY = 20261
"""Root seed of the choice of tasks. Another value gives other tasks under the same names."""
_SENTENCE = re.compile(r"(Your task is to: )[^\n\\\"]*")


class HouseTask(NamedTuple):
    """One task in a house."""

    kind: str
    """One of `TASK_TYPES`."""
    object_kind: str
    """Kind of the object, such as `apple`."""
    parent: str
    """Kind of the receptacle of destination, or of the lamp."""
    plan: tuple[str, ...]
    """Commands of a shortest plan."""


class House(NamedTuple):
    """The room of a game file with the places of all things, and other tasks in it."""

    text: GameText
    contents: Mapping[str, tuple[str, ...]]
    """Receptacle to the things that are in it at the start, by their names in the game's text."""
    tasks: tuple[HouseTask, ...]

    def content(self, task: HouseTask) -> dict[str, object]:
        """Return the content of the game file of a task: the game of the house with another goal."""
        # Problems are read in lower case, and so are the names of types in PDDL.
        names = {"obj": task.object_kind, "recep": task.parent, "toggle": task.parent, "mrecep": ""}
        words = wording(task.kind)
        goal = words.goal.format(**names).replace("#", "-")
        problem = self.text.problem[: self.text.problem.lower().index("(:goal")]
        sentence = words.sentences[0].format(**names)
        return {
            "pddl_domain": self.text.domain,
            "pddl_problem": problem + goal,
            "grammar": _SENTENCE.sub(lambda match: f"{match[1]}{sentence}.", self.text.grammar),
            "solvable": True,
        }


def _goals(problem: Problem) -> Iterator[list[tuple[str, str, str, PlanGoal]]]:
    """Yield for each task type its possible goals: type, kinds of object and destination, and the goal."""
    object_kinds = sorted({kind for name, kind in problem.object_type.items() if name in problem.marks["pickupable"]})
    lamps = sorted({kind for name, kind in problem.object_type.items() if name in problem.marks["toggleable"]})
    parents = sorted(set(problem.receptacle_type.values()))
    for kind in TASK_TYPES:
        lamp = kind == "look_at_obj_in_light"
        count = 2 if kind == "pick_two_obj_and_place" else 1
        yield [
            (kind, object_kind.removesuffix("type"), parent.removesuffix("type"), goal)
            for object_kind in object_kinds
            for parent in (lamps if lamp else parents)
            for goal in [
                PlanGoal(object_kind, None, lamp_type=parent)
                if lamp
                else PlanGoal(object_kind, parent, _STATES.get(kind), count=count)
            ]
        ]


def _house(text: GameText, rng: np.random.Generator) -> House:
    """Return the house of a game with at most `TASKS` tasks, each about another kind of object."""
    problem, dialect = read_problem(text.problem), Dialect(text.grammar)
    orders = [[goals[int(index)] for index in rng.permutation(len(goals))] for goals in _goals(problem)]
    tasks: dict[str, HouseTask] = {}
    # One goal of each task type in turn, so that a house has tasks of all types that its room allows.
    for candidate in chain.from_iterable(zip_longest(*orders)):
        if candidate is None or candidate[1] in tasks:
            continue
        kind, object_kind, parent, problem.goal = candidate
        try:
            plan = plan_for(problem, dialect)
        except NoPlan:
            continue
        # An empty plan is a goal that holds at the start.
        if 0 < len(plan) <= LONGEST:
            tasks[object_kind] = HouseTask(kind, object_kind, parent, plan)
        if len(tasks) == TASKS:
            break
    contents: dict[str, list[str]] = defaultdict(list)
    for name, receptacles in problem.inside.items():
        for receptacle in receptacles:
            if receptacle in problem.location:
                contents[problem.names[receptacle]].append(problem.names[name])
    return House(
        text,
        {receptacle: tuple(sorted(names)) for receptacle, names in sorted(contents.items())},
        tuple(tasks.values()),
    )


@lru_cache(maxsize=8)
def houses(part: str, data: str, size: str | None) -> tuple[House, ...]:
    """Return the first `HOUSES` games of a split that allow `TASKS` tasks.

    Args:
        part: One of `PARTS`.
        data: Data set, as for `ALFWorldHouse`.
        size: Size of generated games, None for game files.
    """
    source = source_of(data, PARTS[part], TASK_TYPES, size)
    suitable_houses: list[House] = []
    for number in range(len(source)):
        # A stream for each game, so that a house does not depend on the games before it.
        key = (list(PARTS).index(part), number)
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(_ENTROPY, spawn_key=key)))
        house = _house(read_game(source.load(source.task_id(number))), rng)
        if len(house.tasks) == TASKS:
            suitable_houses.append(house)
        if len(suitable_houses) == HOUSES:
            break
    return tuple(suitable_houses)
