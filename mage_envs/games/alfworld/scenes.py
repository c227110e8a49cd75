"""The alfworld package's data on the 120 floor plans: rooms, receptacles, objects and the actions that they allow.

The package's files are read without importing it, because `import alfworld` creates folders and sets ALFWORLD_DATA.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mage_envs.games.alfworld.errors import engine_missing

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The task types in the package's order."""
UNSEEN_SCENES = (10, 219, 308, 424)
"""Floor plans of the official out-of-distribution split. No game of another split uses them."""


class Place(NamedTuple):
    """A receptacle of a scene."""

    id: str
    """Id in the spelling of problems, `Cabinet_bar__plus_00_dot_65_...`."""
    type: str
    location: str


@dataclass(frozen=True)
class Affordances:
    """The actions that objects and receptacles allow. All names are the package's types (`Apple`, `CounterTop`)."""

    holds: Mapping[str, tuple[str, ...]]
    """Fixed receptacle to the objects that it may hold, sorted."""
    actions: Mapping[str, frozenset[str]]
    """`Cleanable`, `Heatable`, `Coolable`, `Sliceable`, `Toggleable` to objects."""
    openable: frozenset[str]
    containers: frozenset[str]
    """Objects that are receptacles themselves, such as bowls."""
    kinds: frozenset[str]
    """All types of objects and receptacles, also those that only official games have, such as plants."""
    rooms: Mapping[str, frozenset[str]]
    """Task type to its possible rooms."""
    room_numbers: Mapping[str, range]


@dataclass(frozen=True)
class Scene:
    """One floor plan."""

    number: int
    places: tuple[Place, ...]
    """Receptacles whose position the package knows, sorted by id."""
    types: tuple[str, ...]
    """Types of everything in the scene, sorted."""
    points: tuple[tuple[int, int], ...]
    """Reachable points (x, z), in steps of 0.25 m."""


def is_installed() -> bool:
    """Return True if the alfworld package is installed."""
    return find_spec("alfworld") is not None


@cache
def package_folder() -> Path:
    """Return the folder of the alfworld package. Raise ImportError with installation instructions if it is missing."""
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise engine_missing("alfworld")
    return Path(spec.submodule_search_locations[0])


def domain_text() -> str:
    """Return the PDDL domain of generated games."""
    return (package_folder() / "data" / "alfred.pddl").read_text("utf-8")


def grammar_text() -> str:
    """Return the text grammar of generated games, with `UNKNOWN GOAL` as a placeholder for the task."""
    return (package_folder() / "data" / "alfred.twl2").read_text("utf-8")


def _names_of(file: str) -> dict[str, Any]:
    """Return the names that one of the package's modules defines. The module is executed on its own."""
    path = package_folder() / "gen" / file
    spec = spec_from_file_location(f"mage_envs_alfworld_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"Cannot load {path}. Reinstall alfworld.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@cache
def affordances() -> Affordances:
    """Return the package's tables without sliced objects, which no game has."""
    names = _names_of("constants.py")
    containers = frozenset(names["MOVABLE_RECEPTACLES_SET"])
    return Affordances(
        holds={
            receptacle: tuple(sorted(object_type for object_type in objects if not object_type.endswith("Sliced")))
            for receptacle, objects in sorted(names["VAL_RECEPTACLE_OBJECTS"].items())
            # Movable receptacles are left out: generated games never put an object into one.
            if receptacle not in containers
        },
        actions={verb: frozenset(objects) for verb, objects in names["VAL_ACTION_OBJECTS"].items()},
        openable=frozenset(names["OPENABLE_CLASS_SET"]),
        containers=containers,
        kinds=frozenset(names["OBJECTS_WSLICED"]),
        rooms={task: frozenset(rooms) for task, rooms in names["GOALS_VALID"].items()},
        room_numbers=dict(names["SCENE_TYPE"]),
    )


class SceneWording(NamedTuple):
    """The package's texts for a task type."""

    goal: str
    """PDDL with the fields obj, recep, toggle, mrecep. It closes the problem's own bracket."""
    sentences: tuple[str, ...]


@cache
def wording(task_type: str) -> SceneWording:
    """Return the package's texts for a task type."""
    entry = _names_of("goal_library.py")["gdict"][task_type]
    return SceneWording(entry["pddl"], tuple(entry["templates"]))


@cache
def scene(number: int) -> Scene:
    """Return the floor plan of that number."""
    folder = package_folder() / "gen" / "layouts"
    stands = json.loads((folder / f"FloorPlan{number}-openable.json").read_text("utf-8"))
    layout = np.load(folder / f"FloorPlan{number}-layout.npy")
    types = json.loads((folder / f"FloorPlan{number}-objects.json").read_text("utf-8"))
    places = [Place(mangle(name), _type_of(name), location(*stand)) for name, stand in stands.items()]
    holds = affordances().holds
    return Scene(
        number,
        tuple(sorted(receptacle for receptacle in places if receptacle.type in holds)),
        tuple(sorted(set(types))),
        tuple(sorted({(round(x / 0.25), round(z / 0.25)) for x, z in layout.tolist()})),
    )


def scenes_for(task_type: str, unseen: bool) -> tuple[int, ...]:
    """Return the numbers of the possible scenes of a task type.

    `unseen=True` selects the scenes of the out-of-distribution split, `unseen=False` all others.
    """
    tables = affordances()
    return tuple(
        number
        for room in sorted(tables.rooms[task_type])
        for number in tables.room_numbers[room]
        if (number in UNSEEN_SCENES) == unseen
    )


def _type_of(name: str) -> str:
    """Return the type in an id: `Cabinet|+00.65|...` is a Cabinet, `Sink|...|SinkBasin` a SinkBasin."""
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def mangle(name: str) -> str:
    """Return an id in the spelling of PDDL."""
    # These words are the spelling of alfworld's own games, which `visible_names` reverses.
    for character, word in (("-", "minus"), ("|", "bar"), ("+", "plus"), (".", "dot"), (",", "comma")):
        name = name.replace(character, f"_{word}_")
    return name


def location(x: float, z: float, rotation: float, horizon: float) -> str:
    """Return the name of a standing point.

    Args:
        x: Position in metres.
        z: Position in metres.
        rotation: Direction of view in degrees.
        horizon: Angle of the view below the horizon in degrees.
    """
    return mangle(f"loc|{round(x / 0.25)}|{round(z / 0.25)}|{round(rotation / 90)}|{round(horizon)}")
