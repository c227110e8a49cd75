"""ALFWorldHouse: related tasks whose hidden fact is a house, in which the same things lie at the same places."""

from __future__ import annotations

import os
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from mage_envs.core import GameSpec
from mage_envs.games.alfworld.data import GameSource, NoGames
from mage_envs.games.alfworld.engine import Engine, EngineState, FastEngine
from mage_envs.games.alfworld.game import ALFWorld, ALFWorldState, Household, source_of
from mage_envs.games.alfworld.houses import FACTS, HOUSES, LONGEST, PARTS, TASKS, House, HouseTask, houses
from mage_envs.games.alfworld.packages import check_engine
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.loading.options import check_positive
from mage_envs.related import Related
from mage_envs.settings import GameSettings, success_reward


class HouseState(ALFWorldState):
    """A point of a task, whose steps are counted down. It is mutable, as `ALFWorldState` is."""

    def __init__(self, game: ALFWorldHouse, task_id: str, engine: Engine) -> None:
        # The engine's first answer costs no step.
        self.left = game.steps(task_id) + 1
        super().__init__(game, task_id, engine)
        # The first part of the id names the house.
        self.task_id = task_id.partition("/")[2]

    def _take_in(self, engine_state: EngineState) -> None:
        super()._take_in(engine_state)
        self.left -= 1
        if self.done:
            return
        self._text += f"\nSteps left: {self.left}"
        if not self.left:
            self.player, self.legal_actions = None, ()
            self._text += "\nThe task is not done, and no step is left."


def _spec(steps: int) -> GameSpec:
    return GameSpec(
        name="ALFWorldHouse",
        rules=f"{ALFWorld.spec.rules} It also ends when no step is left; the texts count them down.",
        players=2,
        unit="tasks",
        min_return=0.0,
        max_return=1.0,
        # One command per answer, and two answers more for texts that are no command.
        max_turns=steps + 2,
        series=True,
        stays=(
            "The room stays the same, and at the start of each episode everything in it lies where it lay at the start "
            "of the others. Every episode is another task."
        ),
    )


class ALFWorldHouse(Related, Household):
    """Household tasks in one house: every episode is another task, and things lie at the same places.

    Rules: those of ALFWorld. The hidden fact is a house, which says what lies where at the start of each episode. A
    hand ends when the task is done or when no step is left. Each command is a step.

    Actions: the commands that the engine admits now, such as `go to fridge 1`.

    Observation: the engine's answer to the last command, and the number of steps left. At the start, it is the room and
    the task. The furniture of the room is visible and differs between houses.

    Returns: 1 if the task is done, otherwise 0.

    Success: the task is done.

    Versions: v0.

    Args:
        slack: Steps more than the shortest plan has, at least 0 (default: 2).
        turns: Number of steps of every task instead, such as 10 or 30 (default: None).
        data: `"generated"` (default), `"official"`, or the path of a data set in the official layout, as in ALFWorld.
            Every game of it is a house, if its room allows 8 tasks.
        size: Size of generated houses: `"small"` (default), `"official-like"` or `"tiny"`.

    Raises:
        ValueError: If an option is out of range.
        NoGames: If the data set has no playable game.
        ImportError: If alfworld is not installed.
    """

    spec = _spec(LONGEST + 2)
    kinds_of_fact = tuple(chain(*FACTS.values()))
    shows_place: ClassVar[bool] = True

    def __init__(
        self,
        slack: int = 2,
        turns: int | None = None,
        *,
        data: str | os.PathLike[str] = "generated",
        size: str | None = None,
    ) -> None:
        if slack < 0:
            raise ValueError(f"slack={slack} must be at least 0.")
        if turns is not None:
            check_positive("turns", turns)
        self._options: dict[str, Any] = {"slack": slack, "turns": turns, "data": data, "size": size}
        self.slack, self.turns, self._data = slack, turns, data
        self._size = "small" if size is None and data == "generated" else size
        self.spec = _spec(LONGEST + slack if turns is None else turns)
        # Raises here, before anything is played, if the data or a package is missing.
        self._sources()
        check_engine()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options. The copy makes the houses again."""
        return partial(type(self), **self._options), ()

    def house(self, fact: str) -> House:
        """Return a house by its name. Raises ValueError if there is none."""
        part = fact.rstrip("0123456789")
        if fact not in FACTS.get(part, ()):
            raise ValueError(f"House {fact!r} is unknown; choose one from 'train0' to 'eval{HOUSES - 1}'.")
        available_houses, number = houses(part, os.fspath(self._data), self._size), int(fact.removeprefix(part))
        if number >= len(available_houses):
            raise ValueError(
                f"House {fact!r} does not exist: this data set has {len(available_houses)} houses of {part}."
            )
        return available_houses[number]

    def task(self, task_id: str) -> HouseTask:
        """Return the task of `HOUSE/NUMBER`."""
        fact, _, number = task_id.partition("/")
        return self.house(fact).tasks[int(number)]

    def errand(self, rng: np.random.Generator, number: int) -> int:
        """Return the number of a task. A house has `TASKS` of them."""
        return int(rng.permutation(TASKS)[number % TASKS])

    def begin(self, errand: int, fact: str) -> ALFWorldState:
        self.house(fact)
        return self.start_task(f"{fact}/{errand}")

    def start_task(self, task_id: str) -> ALFWorldState:
        """Return the first state of `HOUSE/NUMBER`. Raise GameFileError, ImportError."""
        # As in ALFWorld: load before the state exists, because an error keeps the frames around it alive.
        engine = FastEngine()
        engine.load(self.house(task_id.partition("/")[0]).content(self.task(task_id)))
        return HouseState(self, task_id, engine)

    def steps(self, task_id: str) -> int:
        """Return the number of steps of a task."""
        return len(self.task(task_id).plan) + self.slack if self.turns is None else self.turns

    def category(self, task_id: str) -> None:
        """Return None: the type of a task depends on the house."""

    def plan(self, task_id: str) -> tuple[str, ...]:
        """Return the commands of a shortest plan of `HOUSE/NUMBER`."""
        return self.task(task_id).plan

    def describe(self, fact: str) -> str:
        contents = [
            f"{receptacle} holds {', '.join(objects)}" for receptacle, objects in self.house(fact).contents.items()
        ]
        return f"At the start of each episode, {'; '.join(contents)}."

    def data_hash(self) -> str:
        """Return a hash that identifies the games of both splits."""
        return "-".join(source.data_hash() for source in self._sources())

    def _sources(self) -> list[GameSource]:
        """Return the games of each split that the data has. Raises NoGames if it has none."""
        sources: list[GameSource] = []
        missing: NoGames | None = None
        for split in PARTS.values():
            try:
                sources.append(source_of(self._data, split, TASK_TYPES, self._size))
            except NoGames as error:
                missing = error
        if not sources and missing is not None:
            raise missing
        return sources


SETTINGS = GameSettings(
    opponent="pool:house/all",
    seat="first",
    rewards={"task": success_reward, "released": success_reward},
    references={
        "floor: random": "scripted:random",
        "blind": "policy:house/blind",
        "with memory": "policy:house/memory",
        "known": "policy:house/known",
        "known, by plan": "policy:house/plan",
        "wrong memory": "policy:house/wrong",
    },
)
