"""Games without the official data: the package's own floor plans, with objects drawn at random and a known plan.

A game depends only on its split, size, task type and number. Out-of-distribution games use the official split's four
floor plans, all others the remaining ones. In a floor plan, a hash assigns each pair of object and destination either
to training or to in-distribution evaluation. So no goal of one is a goal of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, TypeVar

import numpy as np

from mage_envs.games.alfworld.plan import shortest_plan
from mage_envs.games.alfworld.scenes import (
    TASK_TYPES,
    Affordances,
    Place,
    Scene,
    affordances,
    domain_text,
    grammar_text,
    location,
    scene,
    scenes_for,
    wording,
)

T = TypeVar("T")
SPLITS = ("train", "eval_in_distribution", "eval_out_of_distribution")
GAMES_PER_TASK: Mapping[str, int] = {"train": 600, "eval_in_distribution": 24, "eval_out_of_distribution": 24}
"""Games per task type, similar to the official splits: 3,553, 140 and 134 over all six task types."""
# Root seed of all generated games. Another value gives other games under the same ids.
_ENTROPY = 20260
_TRIES = 1000
_EVALUATED = 32
"""Number of the 256 hash values that belong to in-distribution evaluation."""
_APPLIANCES = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
LAMP = "DeskLamp"
"""Floor lamps are in no receptacle, so they cannot be used."""
_STANDS = ("CoffeeTable", "Desk", "DiningTable", "Dresser", "Shelf", "SideTable")
_COPIES = 3
"""Maximum objects of one type."""
_BURNERS = 4


class Size(NamedTuple):
    """The amount of furniture and objects in a room."""

    receptacles: int
    """Maximum number of receptacles."""
    objects: tuple[int, int]
    """Minimum and maximum number of movable objects. There are fewer if the room does not have enough kinds."""
    spare_targets: int
    """Maximum number of objects of the wanted kind beyond those needed."""


SIZES: Mapping[str, Size] = {
    "official-like": Size(54, (19, 57), 2),
    "small": Size(12, (10, 18), 2),
    "tiny": Size(6, (5, 8), 0),
}


@dataclass(frozen=True)
class MadeGame:
    """A generated game."""

    id: str
    split: str
    task_type: str
    index: int
    scene: int
    object_type: str
    parent_type: str
    """Destination. Empty if the task is to look at the object under a lamp."""
    problem: str
    """PDDL text of the problem."""
    grammar: str
    walkthrough: tuple[str, ...]
    """A shortest plan."""

    def data(self) -> dict[str, object]:
        """Return the content of a `game.tw-pddl` file."""
        return {
            "pddl_domain": domain_text(),
            "grammar": self.grammar,
            "pddl_problem": self.problem,
            "solvable": True,
            "walkthrough": list(self.walkthrough),
        }


def task_id(split: str, size: str, task_type: str, index: int) -> str:
    """Return the id of a generated game.

    Args:
        split: One of `SPLITS`.
        size: One of `SIZES`.
        task_type: One of `TASK_TYPES`.
        index: Number of the game in its split and task type, from 0.
    """
    return f"{split}/{size}/{task_type}/{index}"


@lru_cache(maxsize=64)
def task_ids(split: str, size: str, task_types: tuple[str, ...] = TASK_TYPES) -> tuple[str, ...]:
    """Return the ids of all generated games of a split. Consecutive ids cycle through the task types.

    Args:
        split: One of `SPLITS`.
        size: One of `SIZES`.
        task_types: Task types to include.
    """
    return tuple(task_id(split, size, kind, index) for index in range(GAMES_PER_TASK[split]) for kind in task_types)


def make_game(split: str, size: str, task_type: str, index: int) -> MadeGame:
    """Return a generated game.

    Args:
        split: One of `SPLITS`.
        size: One of `SIZES`.
        task_type: One of `TASK_TYPES`.
        index: Number of the game in its split and task type, from 0.

    Raises:
        ValueError: If an argument is unknown or out of range.
    """
    for name, value, choices in (
        ("split", split, SPLITS),
        ("size", size, tuple(SIZES)),
        ("task_type", task_type, TASK_TYPES),
    ):
        if value not in choices:
            raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(choices)}.")
    if index not in range(GAMES_PER_TASK[split]):
        raise ValueError(f"{split} has the games 0 to {GAMES_PER_TASK[split] - 1} of each task type, got {index}.")
    key = (SPLITS.index(split), list(SIZES).index(size), TASK_TYPES.index(task_type), index)
    # A stream of its own for each game, so that a game does not depend on the games made before it.
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(_ENTROPY, spawn_key=key)))
    numbers = scenes_for(task_type, unseen=split == "eval_out_of_distribution")
    for _ in range(_TRIES):
        # Every draw below belongs to the definition of the games: another order of draws gives other games under the
        # same ids.
        room = _furnish(scene(_one(rng, numbers)), rng)
        target = _target(room, split, task_type, rng)
        if target is not None:
            contents = _Contents(room, SIZES[size], target, rng)
            return _build_game(contents, split, size, task_type, index, rng)
    raise ValueError(f"No game {task_id(split, size, task_type, index)} was found in {_TRIES} tries.")


def _one(rng: np.random.Generator, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def _furnish(plain: Scene, rng: np.random.Generator) -> Scene:
    """Return the scene, extended by one receptacle of each type whose position the package does not know."""
    known_types = {receptacle.type for receptacle in plain.places}
    new_places = []
    for kind in plain.types:
        if kind in affordances().holds and kind not in known_types:
            for number in range(_BURNERS if kind == "StoveBurner" else 1):
                # Two burners share a standing point.
                if number % 2 == 0:
                    x, z = _one(rng, plain.points)
                    stand = location(x * 0.25, z * 0.25, 90 * int(rng.integers(4)), 30)
                prefix = "Sink_bar_" if kind == "SinkBasin" else ""
                new_places.append(Place(f"{prefix}{kind}_bar_added_{number}", kind, stand))
    return Scene(plain.number, (*plain.places, *new_places), plain.types, plain.points)


@dataclass(frozen=True)
class _Target:
    task_type: str
    object_type: str
    parent_type: str
    appliance: str
    """Receptacle type that the task needs before the destination. Empty if it needs none."""

    @property
    def needed(self) -> int:
        return 2 if self.task_type == "pick_two_obj_and_place" else 1


def _target(room: Scene, split: str, task_type: str, rng: np.random.Generator) -> _Target | None:
    """Return a goal that the room allows and that belongs to the split, or None."""
    tables = affordances()
    verb, appliance = _APPLIANCES.get(task_type, ("", ""))
    receptacle_types = sorted({receptacle.type for receptacle in room.places})
    if appliance and appliance not in receptacle_types:
        return None
    lamp = task_type == "look_at_obj_in_light"
    if lamp and (LAMP not in room.types or not any(kind in _STANDS for kind in receptacle_types)):
        return None
    targets = [
        (object_type, parent)
        for object_type in _movable(room, tables)
        if not verb or object_type in tables.actions[verb]
        for parent in (("",) if lamp else receptacle_types)
        if lamp or (parent != appliance and object_type in tables.holds[parent])
        # The object must start somewhere else than in its destination, or the game would be won at once.
        if any(kind != parent and object_type in tables.holds[kind] for kind in receptacle_types)
        if _belongs(split, f"{task_type}/{object_type}/{parent}/{room.number}")
    ]
    return _Target(task_type, *_one(rng, targets), appliance) if targets else None


def _movable(room: Scene, tables: Affordances) -> list[str]:
    """Return the types of objects in the room that one of its receptacles may hold, sorted."""
    holdable_types = {object_type for receptacle in room.places for object_type in tables.holds[receptacle.type]}
    return sorted(holdable_types & set(room.types))


def _belongs(split: str, goal: str) -> bool:
    """Return True if the goal belongs to the split."""
    if split == "eval_out_of_distribution":
        return True
    # A hash is the same in every process and release, unlike a draw or the built-in `hash`.
    return (sha256(goal.encode()).digest()[0] < _EVALUATED) == (split == "eval_in_distribution")


class _Contents:
    """The receptacles of a room that a game uses, and the objects in them."""

    def __init__(self, room: Scene, size: Size, target: _Target, rng: np.random.Generator) -> None:
        self.room = room
        self.target = target
        self._rng = rng
        self._holds = affordances().holds
        count = target.needed + int(rng.integers(size.spare_targets + 1))
        sources = [_one(rng, self._sources()) for _ in range(count)]
        required_places = {*sources, *([self._place(target.parent_type)] if target.parent_type else [])}
        required_places |= {self._place(target.appliance)} if target.appliance else set()
        self.lamp_stand = self._stand(sorted(required_places)) if not target.parent_type else None
        required_places |= {self.lamp_stand} if self.lamp_stand else set()
        # The receptacles of the plan are always part of the game. The rest of the budget is filled at random.
        other_places = [receptacle for receptacle in room.places if receptacle not in required_places]
        extra_indices = rng.permutation(len(other_places))[: max(size.receptacles - len(required_places), 0)]
        self.places = sorted({*required_places, *(other_places[int(index)] for index in extra_indices)})
        self.objects: list[tuple[str, Place]] = [(target.object_type, source) for source in sources]
        """(type, receptacle) of every movable object."""
        self._fill(int(rng.integers(size.objects[0], size.objects[1] + 1)))

    def _place(self, kind: str) -> Place:
        return _one(self._rng, [receptacle for receptacle in self.room.places if receptacle.type == kind])

    def _sources(self) -> list[Place]:
        """Return the receptacles that may hold the wanted object at the start, without the destinations."""
        object_type, parent = self.target.object_type, self.target.parent_type
        return [
            receptacle
            for receptacle in self.room.places
            if receptacle.type != parent and object_type in self._holds[receptacle.type]
        ]

    def _stand(self, candidates: Sequence[Place]) -> Place:
        """Return the receptacle of the lamp, one of the chosen receptacles if one is suitable."""
        suitable_places = [receptacle for receptacle in candidates if receptacle.type in _STANDS]
        return _one(
            self._rng, suitable_places or [receptacle for receptacle in self.room.places if receptacle.type in _STANDS]
        )

    def _fill(self, object_count: int) -> None:
        """Add other objects until there are `object_count`, or until no kind is left."""
        places_by_kind = {
            kind: [receptacle for receptacle in self.places if kind in self._holds[receptacle.type]]
            for kind in _movable(self.room, affordances())
            if kind != self.target.object_type
        }
        # Each kind is in the pool `_COPIES` times, so that a permutation respects the maximum of a type.
        pool = [kind for kind, places in places_by_kind.items() if places for _ in range(_COPIES)]
        for index in self._rng.permutation(len(pool))[: max(object_count - len(self.objects), 0)]:
            kind = pool[int(index)]
            self.objects.append((kind, _one(self._rng, places_by_kind[kind])))

    def start(self) -> str:
        """Return the agent's first location, which is in front of no receptacle."""
        used_locations = {receptacle.location for receptacle in self.places}
        while True:
            x, z = _one(self._rng, self.room.points)
            stand = location(x * 0.25, z * 0.25, 90 * int(self._rng.integers(4)), 0)
            if stand not in used_locations:
                return stand


def _build_game(
    contents: _Contents, split: str, size: str, task_type: str, index: int, rng: np.random.Generator
) -> MadeGame:
    target, words = contents.target, wording(task_type)
    names = {"obj": target.object_type, "recep": target.parent_type, "toggle": LAMP, "mrecep": ""}
    sentence = _one(rng, words.sentences).format(**{field: name.lower() for field, name in names.items()})
    grammar = grammar_text().replace("UNKNOWN GOAL", sentence)
    problem = _problem_text(contents, words.goal.format(**names).replace("#", "-"))
    return MadeGame(
        id=task_id(split, size, task_type, index),
        split=split,
        task_type=task_type,
        index=index,
        scene=contents.room.number,
        object_type=target.object_type,
        parent_type=target.parent_type,
        problem=problem,
        grammar=grammar,
        walkthrough=shortest_plan(problem, grammar),
    )


_MARKS = ("Cleanable", "Heatable", "Coolable", "Sliceable", "Toggleable")


def _problem_text(contents: _Contents, goal: str) -> str:
    tables, places = affordances(), contents.places
    start = contents.start()
    counts: Counter[str] = Counter()
    game_objects = []
    for kind, receptacle in [*contents.objects, *([(LAMP, contents.lamp_stand)] if contents.lamp_stand else [])]:
        game_objects.append((f"{kind}_bar_{counts[kind]}", kind, receptacle))
        counts[kind] += 1
    objects = [("agent1", "agent"), *((f"{kind}Type", "otype") for kind in sorted(counts))]
    objects += [(f"{kind}Type", "rtype") for kind in sorted({receptacle.type for receptacle in places})]
    objects += [(name, "object") for name, _, _ in game_objects]
    objects += [(receptacle.id, "receptacle") for receptacle in places]
    objects += [(name, "location") for name in sorted({start, *(receptacle.location for receptacle in places)})]
    facts = [f"atLocation agent1 {start}"]
    for receptacle in places:
        facts += [
            f"receptacleType {receptacle.id} {receptacle.type}Type",
            f"receptacleAtLocation {receptacle.id} {receptacle.location}",
        ]
        facts += [f"openable {receptacle.id}"] if receptacle.type in tables.openable else []
    for kind in sorted({receptacle.type for receptacle in places}):
        facts += [
            f"canContain {kind}Type {object_kind}Type" for object_kind in tables.holds[kind] if object_kind in counts
        ]
    for name, kind, receptacle in game_objects:
        facts += [f"objectType {name} {kind}Type", f"inReceptacle {name} {receptacle.id}"]
        facts += [f"objectAtLocation {name} {receptacle.location}"]
        facts += [f"pickupable {name}"] if kind != LAMP else []
        facts += [f"isReceptacleObject {name}"] if kind in tables.containers else []
        facts += [f"{mark.lower()} {name}" for mark in _MARKS if kind in tables.actions[mark]]
    listing = "\n".join(f"        {name} - {kind}" for name, kind in objects)
    init = "\n".join(f"        ({fact})" for fact in facts)
    return f"(define (problem generated)\n    (:domain alfred)\n    (:objects\n{listing})\n    (:init\n{init})\n{goal}"
