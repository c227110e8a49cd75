"""Reference players of ALFWorld for the learner's own seat: an oracle that knows the plan, and an expert.

The expert plays from the text alone, as a learner would. It searches the receptacles that may hold the object, the
cheapest first, and then completes the task. In later episodes of a meta-episode it remembers the positions of objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.alfworld.game import ALFWorld
from mage_envs.games.alfworld.scenes import affordances

_TASKS = (
    (re.compile(r"put an? (clean|hot|cool) (\w+) in (\w+)"), ("verb", "object_kind", "parent")),
    (re.compile(r"(clean|heat|cool) some (\w+) and put it in (\w+)"), ("verb", "object_kind", "parent")),
    (re.compile(r"(?:put|find) (two) (\w+) (?:and put them )?in (\w+)"), ("count", "object_kind", "parent")),
    (re.compile(r"(?:look at|examine the) (\w+) (?:under|with) the (\w+)"), ("object_kind", "lamp")),
    (re.compile(r"put (?:an?|some) (\w+) (?:in|on) (\w+)"), ("object_kind", "parent")),
)
"""Sentences of the six task types, with the fields of their groups; the first match counts."""
_VERBS = {"clean": "clean", "hot": "heat", "heat": "heat", "cool": "cool"}
_APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_OBJECT = re.compile(r"\ba ([a-z]+ \d+)")


class Assignment(NamedTuple):
    """The goal of a task. Kinds are names without a number."""

    object_kind: str
    """Kind of the object."""
    parent: str = ""
    """Kind of the receptacle to put it in; empty if the task names a lamp."""
    verb: str = ""
    """`clean`, `heat`, `cool`, or empty."""
    lamp: str = ""
    """Kind of the lamp to use, or empty."""
    number: int = 1
    """Number of objects."""


def read_task(text: str) -> Assignment | None:
    """Return the assignment in a game's first observation, or None if no known form matches."""
    _, separator, sentence = text.partition("Your task is to: ")
    if not separator:
        return None
    for pattern, fields in _TASKS:
        match = pattern.search(sentence)
        if match:
            groups = dict(zip(fields, match.groups(), strict=True))
            verb = _VERBS.get(groups.get("verb", ""), "")
            return Assignment(
                object_kind=groups["object_kind"],
                parent=groups.get("parent", ""),
                verb=verb,
                lamp=groups.get("lamp", ""),
                number=2 if "count" in groups else 1,
            )
    return None


def kind_of(name: str) -> str:
    """Return the kind in a name: `cabinet` for `cabinet 3`."""
    return name.partition(" ")[0]


class KnownRoom:
    """The known part of a room."""

    def __init__(self, receptacles: Iterable[str]) -> None:
        self.receptacles = tuple(receptacles)
        self.contents: dict[str, set[str]] = {}
        """Map from a receptacle to its objects; receptacles that were not inspected are missing."""
        self.closed: set[str] = set()
        """Receptacles that were found closed."""
        self.lamps: dict[str, str] = {}
        """Map from a lamp to a receptacle where it can be used."""

    def of(self, kind: str) -> list[str]:
        return [receptacle for receptacle in self.receptacles if kind_of(receptacle) == kind]

    def where(self, kind: str) -> list[tuple[str, str]]:
        """Return (object, receptacle) for all known objects of a kind."""
        return [
            (object_name, receptacle)
            for receptacle in self.receptacles
            for object_name in sorted(self.contents.get(receptacle, ()))
            if kind_of(object_name) == kind
        ]


class ALFWorldExpert(Policy):
    """A player that searches and acts by the text. In a large room it may run out of turns.

    Its commands are spelled as in `turn.legal_actions`.
    """

    def __init__(self, remembers: bool = True) -> None:
        """Initialize the expert; `remembers` is True if it keeps what it saw in earlier episodes."""
        self._remembers = remembers
        self._remembered: KnownRoom | None = None
        """Known part of the room as it is at the beginning of every episode."""
        self._begins = True

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode."""
        self._begins = True

    def act(self, turn: Turn) -> str:
        if self._begins:
            self._begin(turn)
        legal = turn.legal_actions
        if not legal:
            return "look"
        task = self._task
        if task is None:
            return legal[0]
        self._look(turn)
        choice = self._fetch(task, legal) if self._held_object is None else self._deliver(task, legal)
        # If the rules above find no legal command, any legal command is better than an invalid one.
        if choice is None or choice not in legal:
            choice = legal[0]
        self._note(choice)
        return choice

    def _begin(self, turn: Turn) -> None:
        self._begins = False
        self._task = read_task(turn.observation)
        receptacles = _OBJECT.findall(turn.observation.partition("Your task is to: ")[0])
        self._remembered = initial_room = self._initial_room(turn, tuple(receptacles))
        self._room = KnownRoom(receptacles)
        # A copy, because this episode moves objects and the next episode starts from the original positions.
        self._room.contents = {
            receptacle: set(object_names) for receptacle, object_names in initial_room.contents.items()
        }
        self._room.lamps = initial_room.lamps
        self._held_object: str | None = None
        self._treated = False
        self._location = ""
        self._first_target = ""
        """Receptacle of the first of two objects, or empty."""
        self._placed_objects: set[str] = set()
        """Objects that were put into their final place."""

    def _initial_room(self, turn: Turn, receptacles: tuple[str, ...]) -> KnownRoom:
        """Return the known part of the room with these receptacles at the beginning of an episode."""
        # Nothing is remembered from before episode 0, and another list of receptacles means another room.
        remembered_room = self._remembered if turn.episode > 0 and self._remembers else None
        return (
            KnownRoom(receptacles)
            if remembered_room is None or remembered_room.receptacles != receptacles
            else remembered_room
        )

    # -- seeing ---------------------------------------------------------------------------------------------

    def _look(self, turn: Turn) -> None:
        """Update the room from the text and the admissible commands."""
        room, text = self._room, turn.observation
        if f"The {self._location} is closed" in text:
            room.closed.add(self._location)
        elif (
            self._location
            and "you see" in text
            and (f"the {self._location}" in text or f"The {self._location}" in text)
        ):
            self._see(self._location, _OBJECT.findall(text.partition("you see")[2]))
        in_reach: dict[str, set[str]] = {}
        for command in turn.legal_actions:
            object_name, separator, receptacle = command.removeprefix("take ").partition(" from ")
            if separator and command.startswith("take "):
                in_reach.setdefault(receptacle, set()).add(object_name)
        # With empty hands, the commands list every object here that can be taken, so the contents are complete.
        if self._held_object is None:
            for receptacle in room.receptacles:
                if f"examine {receptacle}" in turn.legal_actions and f"open {receptacle}" not in turn.legal_actions:
                    self._see(receptacle, in_reach.get(receptacle, set()))
        for command in turn.legal_actions:
            if command.startswith("use ") and self._location:
                room.lamps.setdefault(command.removeprefix("use "), self._location)

    def _see(self, receptacle: str, object_names: Iterable[str]) -> None:
        self._room.contents[receptacle] = set(object_names)
        self._room.closed.discard(receptacle)
        # Only the first look counts for later episodes, without the objects that this episode has put there.
        if self._remembered is not None and receptacle not in self._remembered.contents:
            self._remembered.contents[receptacle] = {
                object_name for object_name in object_names if object_name not in self._placed_objects
            }

    def _note(self, command: str) -> None:
        """Update the room by the effects of the chosen command."""
        words = command.split(" ")
        if command.startswith(("go to ", "open ", "examine ")):
            self._location = " ".join(words[-2:])
        elif words[0] == "take":
            self._held_object = " ".join(words[1:3])
            self._room.contents.get(" ".join(words[-2:]), set()).discard(self._held_object)
            self._treated = False
        elif words[0] in ("put", "move") and self._held_object is not None:
            self._first_target = " ".join(words[-2:])
            self._placed_objects.add(self._held_object)
            self._held_object = None
        elif words[0] in _APPLIANCES:
            self._treated = True

    # -- acting ---------------------------------------------------------------------------------------------

    def _fetch(self, task: Assignment, legal: tuple[str, ...]) -> str | None:
        """Return the next command towards holding the object."""
        # An object that is in its receptacle already does not count, unless it must first be cleaned, heated or cooled.
        candidates = [
            (object_name, receptacle)
            for object_name, receptacle in self._room.where(task.object_kind)
            if object_name not in self._placed_objects and (task.verb or kind_of(receptacle) != task.parent)
        ]
        for object_name, receptacle in candidates:
            if f"take {object_name} from {receptacle}" in legal:
                return f"take {object_name} from {receptacle}"
        if candidates:
            return self._approach([candidates[0][1]], legal)
        return self._search(task.object_kind, legal, avoid="" if task.verb else task.parent)

    def _deliver(self, task: Assignment, legal: tuple[str, ...]) -> str | None:
        """Return the next command towards the goal, with the object in hand."""
        if task.lamp:
            for command in legal:
                if command.startswith(f"use {task.lamp} "):
                    return command
            receptacles = [receptacle for lamp, receptacle in self._room.lamps.items() if kind_of(lamp) == task.lamp]
            return self._approach(receptacles, legal) if receptacles else self._search(task.lamp, legal)
        if task.verb and not self._treated:
            for command in legal:
                if command.startswith(f"{task.verb} {self._held_object} "):
                    return command
            return self._approach(self._room.of(_APPLIANCES[task.verb]), legal, inside=False)
        # Both of two objects must be in the same receptacle.
        goals = [self._first_target] if self._first_target else self._room.of(task.parent)
        for command in legal:
            if command.startswith((f"move {self._held_object} ", f"put {self._held_object} ")) and command.endswith(
                tuple(f" {goal}" for goal in goals)
            ):
                return command
        return self._approach(goals, legal)

    def _approach(self, receptacles: list[str], legal: tuple[str, ...], inside: bool = True) -> str | None:
        """Return the command that opens one of the receptacles here, or goes to one, preferably to an open one."""
        if inside:
            for receptacle in receptacles:
                if f"open {receptacle}" in legal:
                    return f"open {receptacle}"
        sorted_receptacles = sorted(
            receptacles, key=lambda name: (name not in self._room.contents, name in self._room.closed)
        )
        for receptacle in sorted_receptacles:
            # There is no `go to` for the place where the player is.
            for command in (f"go to {receptacle}", f"examine {receptacle}"):
                if command in legal:
                    return command
        return None

    def _search(self, kind: str, legal: tuple[str, ...], avoid: str = "") -> str | None:
        """Return a command towards a receptacle that was not inspected: closed ones here, then open ones, then all."""
        room, likely = self._room, _keepers(kind)
        unseen = [
            receptacle
            for receptacle in room.receptacles
            if receptacle not in room.contents and kind_of(receptacle) != avoid
        ]
        for receptacle in unseen:
            if f"open {receptacle}" in legal and kind_of(receptacle) in likely:
                return f"open {receptacle}"
        # Likely receptacles first; among them those without a door, which take one step instead of two.
        unseen.sort(key=lambda name: (kind_of(name) not in likely, kind_of(name) in _openable()))
        if not unseen:
            unseen = [receptacle for receptacle in room.of(avoid) if receptacle not in room.contents] if avoid else []
        return self._approach(unseen[:1], legal)


@cache
def _openable() -> frozenset[str]:
    return frozenset(map(str.lower, affordances().openable))


@cache
def _keepers(kind: str) -> frozenset[str]:
    """Return the kinds of receptacles that may hold a kind of object; for lamps, all kinds without a door."""
    holds = {
        receptacle.lower(): tuple(map(str.lower, object_kinds))
        for receptacle, object_kinds in affordances().holds.items()
    }
    kinds = frozenset(receptacle for receptacle, object_kinds in holds.items() if kind in object_kinds)
    return kinds or frozenset(holds) - _openable()


expert_without_memory = partial(ALFWorldExpert, remembers=False)
"""Expert that starts each episode without memory."""


class ALFWorldOracle(Policy):
    """A player that executes the shortest plan of the game in `turn.task_id`, or plays `look` if it knows no plan."""

    def __init__(self, game: Game) -> None:
        if not isinstance(game, ALFWorld):
            raise TypeError(f"Opponent 'alfworld/oracle' expects ALFWorld, got {game.spec.name}.")
        self._game = game
        self._remaining_plan: list[str] | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode."""
        self._remaining_plan = None

    def act(self, turn: Turn) -> str:
        # The plan is reversed, so that `pop` removes its next command.
        if self._remaining_plan is None:
            plan = None if turn.task_id is None else self._game.plan(turn.task_id)
            self._remaining_plan = list(plan or ())[::-1]
        return self._remaining_plan.pop() if self._remaining_plan else "look"
