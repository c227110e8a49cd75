"""What the installed alfworld package knows of the 120 floor plans: rooms, receptacles, objects and what each affords.

The package's files are read without importing it, because `import alfworld` makes folders and sets ALFWORLD_DATA.
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
"""In the package's own order."""
UNSEEN_SCENES = (10, 219, 308, 424)
"""The floor plans of the official out-of-distribution split; no game of another split is in one of them."""


class Place(NamedTuple):
    """A receptacle of a scene."""

    id: str
    """As problems spell it, `Cabinet_bar__plus_00_dot_65_...`."""
    type: str
    location: str


@dataclass(frozen=True)
class Affordances:
    """What can be done with what; all names are the package's type names (`Apple`, `CounterTop`)."""

    holds: Mapping[str, tuple[str, ...]]
    """Fixed receptacle to the objects that it may hold, sorted."""
    actions: Mapping[str, frozenset[str]]
    """`Cleanable`, `Heatable`, `Coolable`, `Sliceable`, `Toggleable` to objects."""
    openable: frozenset[str]
    containers: frozenset[str]
    """Objects that are receptacles themselves, such as bowls."""
    rooms: Mapping[str, frozenset[str]]
    """Task type to the rooms that it may be set in."""
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
    """Where one can stand, in steps of 0.25 m."""


def is_installed() -> bool:
    """Whether the alfworld package is there."""
    return find_spec("alfworld") is not None


@cache
def package_folder() -> Path:
    """The folder of the alfworld package. Raises ImportError with the remedy."""
    found = find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise engine_missing("alfworld")
    return Path(found.submodule_search_locations[0])


def domain_text() -> str:
    """The PDDL domain that generated games carry."""
    return (package_folder() / "data" / "alfred.pddl").read_text("utf-8")


def grammar_text() -> str:
    """The text grammar that generated games carry, with `UNKNOWN GOAL` in place of the task."""
    return (package_folder() / "data" / "alfred.twl2").read_text("utf-8")


def _names_of(file: str) -> dict[str, Any]:
    """The names that one of the package's modules defines, run on its own."""
    path = package_folder() / "gen" / file
    spec = spec_from_file_location(f"mage_envs_alfworld_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded; install alfworld anew.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@cache
def affordances() -> Affordances:
    """The package's tables, without sliced objects, which no game has."""
    names = _names_of("constants.py")
    containers = frozenset(names["MOVABLE_RECEPTACLES_SET"])
    return Affordances(
        holds={
            receptacle: tuple(sorted(each for each in objects if not each.endswith("Sliced")))
            for receptacle, objects in sorted(names["VAL_RECEPTACLE_OBJECTS"].items())
            if receptacle not in containers
        },
        actions={verb: frozenset(objects) for verb, objects in names["VAL_ACTION_OBJECTS"].items()},
        openable=frozenset(names["OPENABLE_CLASS_SET"]),
        containers=containers,
        rooms={task: frozenset(rooms) for task, rooms in names["GOALS_VALID"].items()},
        room_numbers=dict(names["SCENE_TYPE"]),
    )


class SceneWording(NamedTuple):
    """How the package puts a task type."""

    goal: str
    """PDDL, with fields obj, recep, toggle, mrecep; it closes the problem's own bracket."""
    sentences: tuple[str, ...]


@cache
def wording(task_type: str) -> SceneWording:
    entry = _names_of("goal_library.py")["gdict"][task_type]
    return SceneWording(entry["pddl"], tuple(entry["templates"]))


@cache
def scene(number: int) -> Scene:
    """A floor plan, by its number."""
    folder = package_folder() / "gen" / "layouts"
    stands = json.loads((folder / f"FloorPlan{number}-openable.json").read_text("utf-8"))
    layout = np.load(folder / f"FloorPlan{number}-layout.npy")
    types = json.loads((folder / f"FloorPlan{number}-objects.json").read_text("utf-8"))
    places = [Place(mangled(name), _type_of(name), location(*stand)) for name, stand in stands.items()]
    holds = affordances().holds
    return Scene(
        number,
        tuple(sorted(place for place in places if place.type in holds)),
        tuple(sorted(set(types))),
        tuple(sorted({(round(x / 0.25), round(z / 0.25)) for x, z in layout.tolist()})),
    )


def scenes_for(task_type: str, unseen: bool) -> tuple[int, ...]:
    """The numbers of the scenes that a task type may be set in, of the unseen ones or of all others."""
    tables = affordances()
    return tuple(
        number
        for room in sorted(tables.rooms[task_type])
        for number in tables.room_numbers[room]
        if (number in UNSEEN_SCENES) == unseen
    )


def _type_of(name: str) -> str:
    """`Cabinet|+00.65|...` is a Cabinet, `Sink|...|SinkBasin` a SinkBasin."""
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def mangled(name: str) -> str:
    """An id as PDDL takes it."""
    for character, word in (("-", "minus"), ("|", "bar"), ("+", "plus"), (".", "dot"), (",", "comma")):
        name = name.replace(character, f"_{word}_")
    return name


def location(x: float, z: float, rotation: float, horizon: float) -> str:
    """The name of a standing point: metres, degrees, degrees."""
    return mangled(f"loc|{round(x / 0.25)}|{round(z / 0.25)}|{round(rotation / 90)}|{round(horizon)}")
