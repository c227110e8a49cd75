"""ALFWorld: household tasks in text, on the real TextWorld engine.

Rules: one room with numbered receptacles and objects; the task (put an object somewhere, perhaps cleaned, heated or
cooled first; put two; look at one under a lamp) is won as soon as its goal holds. Only what is where you stand, and
not behind a closed door, can be seen and reached; you carry one object at a time.
Actions: the commands that the engine admits now, as `go to fridge 1`; leading and trailing blanks and the case do
not matter. Anything else is what the engine answers with "Nothing happens.": an illegal action. `help` is accepted
where the game has it, and not listed.
Observation: the engine's answer to the last command; at the start the room and the task.
Returns: 1 for a task that is won, else 0.
Versions: v0.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mage_envs.core import EpisodeReward, HandResult, IllegalAction, TextGame, Turn, success_or_nothing, success_reward
from mage_envs.games.alfworld.data import GameFiles, GameSource, MadeGames, NoGames, data_root
from mage_envs.games.alfworld.engine import Engine, FastEngine, State
from mage_envs.games.alfworld.errors import GameFileError
from mage_envs.games.alfworld.maker import SPLITS
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.games.alfworld.stock import StockEngine

BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"
HELP = "help"
ENGINES: Mapping[str, Callable[[], Engine]] = {"fast": FastEngine, "stock": StockEngine}
ALIASES: Mapping[str, str] = {"valid_seen": "eval_in_distribution", "valid_unseen": "eval_out_of_distribution"}


class ALFWorld(TextGame):
    """ALFWorld; see the module's text for rules, actions, observation and returns.

    `split`: `"train"`, `"eval_in_distribution"` (or `"valid_seen"`), `"eval_out_of_distribution"` (`"valid_unseen"`).
    `data`: `"generated"` (no download), `"official"` ($ALFWORLD_DATA), or the path of a data set in the official
    layout; game files are code, load only those that you trust. `size`, of generated games: `"official-like"`
    (default), `"small"`, `"tiny"`. `task_types`: one of the six, or several (default: all). `engine`: `"fast"`, or
    `"stock"` for TextWorld's own, some hundred times slower. `show_commands=False` keeps the admissible commands out
    of the prompt; `info["legal_actions"]` holds them all the same. `banner=True` keeps the engine's greeting.
    """

    name = "ALFWorld"
    num_players = 1
    rules = (
        "You are in a room of a house and carry out a household task. Objects and places have numbers, as in apple 1 "
        "or fridge 2. You see only what is where you stand: go to a place to see what is on it, and open it, where it "
        "is closed, to see what is in it. You can hold one object at a time. Commands have the forms: go to PLACE, "
        "open PLACE, close PLACE, take OBJECT from PLACE, move OBJECT to PLACE (in some games: put OBJECT in/on "
        "PLACE), clean OBJECT with SINKBASIN, heat OBJECT with MICROWAVE, cool OBJECT with FRIDGE, slice OBJECT with "
        "KNIFE, use LAMP, examine OBJECT or PLACE, inventory, look. An action is one command, spelt exactly, as in: "
        "go to fridge 1. The episode ends as soon as the task is done."
    )
    min_return = 0.0
    max_return = 1.0
    max_turns = 50
    turn_limits: Mapping[str, int] = {"task": 30, "released": 10}  # type: ignore[misc]
    history_window = 15
    full_turns = 15
    reflect_window = 15
    unit = "tasks"
    rewards: Mapping[str, EpisodeReward] = {"task": success_reward, "released": success_or_nothing}  # type: ignore[misc]

    def __init__(
        self,
        split: str = "train",
        *,
        data: str | os.PathLike[str] = "generated",
        size: str | None = None,
        task_types: str | Sequence[str] | None = None,
        engine: str = "fast",
        show_commands: bool = True,
        banner: bool = False,
    ) -> None:
        self._options: dict[str, Any] = {
            "split": split,
            "data": data,
            "size": size,
            "task_types": task_types,
            "engine": engine,
            "show_commands": show_commands,
            "banner": banner,
        }
        if engine not in ENGINES:
            raise ValueError(f"engine={engine!r} is unknown; choose one of: {', '.join(ENGINES)}.")
        self.split = _split(split)
        self._source = _source(data, self.split, _task_types(task_types), size)
        self._engine: Engine | None = None
        """Made for the first game, since it holds some memory and a copy of the planner's library."""
        self._shows = show_commands
        self._banner = banner
        self._wanted: str | None = None
        self._task: str | None = None
        self._commands: list[str] = []
        """Carried out so far."""
        self._first = self._text = ""
        self._won = False
        self._admissible: tuple[str, ...] = ()
        self._legal: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is a game with the same options, on which nothing is played: engines cannot be copied."""
        return _rebuilt, (type(self), self._options)

    # -- tasks ----------------------------------------------------------------------------------------------

    def task_id(self) -> str | None:
        return self._task

    def choose(self, task_id: str | None) -> None:
        if task_id is not None:
            self._source.check(task_id)
        self._wanted = task_id

    def category(self) -> str | None:
        return None if self._task is None else self._source.category(self._task)

    # -- the rules ------------------------------------------------------------------------------------------

    def reset(self, rng: np.random.Generator) -> None:
        task = self._wanted
        if task is None:
            task = self._source.task_id(int(rng.integers(len(self._source))))
        if task != self._task or self._engine is None:
            self._load(task)
        assert self._engine is not None
        state = self._engine.reset()
        if state.won:
            raise GameFileError(task, "its goal holds before the first command")
        self._commands = []
        self._take_in(state)
        self._first = self._text

    def _load(self, task: str) -> None:
        self._task = None  # should it fail, nothing is loaded
        if self._engine is None:
            self._engine = ENGINES[self._options["engine"]]()
            weakref.finalize(self, self._engine.close).atexit = False
        self._engine.load(self._source.load(task))
        self._task = task

    def _take_in(self, state: State) -> None:
        text = state.feedback.strip("\n")
        self._text = text if self._banner else text.removeprefix(BANNER)
        self._won = state.won
        self._admissible = state.admissible_commands
        self._legal = () if self._won else tuple([one for one in state.admissible_commands if one != HELP])
        if self._won:
            self._text += "\nThe task is done."

    def current_player(self) -> int | None:
        return None if self._won else 0

    def legal_actions(self) -> tuple[str, ...]:
        """The admissible commands but `help`, in alphabetical order."""
        return self._legal

    def observe(self, player: int) -> str:
        return self._text

    def information_state(self, player: int) -> str:
        """How the game began, and every command since: what it answers follows from these."""
        return "\n> ".join((self._first, *self._commands))

    def turn(self, player: int, episode: int = 0) -> Turn:
        turn = super().turn(player, episode)._replace(task=self._task)
        return turn if self._shows else turn._replace(legal_actions=())

    def canonical(self, action: str) -> str:
        plain = action[:1000].strip().lower()
        return plain if len(action) <= 1000 and plain in self._admissible else action

    def apply(self, action: str) -> None:
        command = self.canonical(action)
        if self._won or command not in self._admissible:
            raise IllegalAction(action, self._legal)
        assert self._engine is not None
        self._take_in(self._engine.step(command))
        self._commands.append(command)

    def returns(self) -> tuple[float, ...]:
        return (1.0 if self._won else 0.0,)

    def return_if_stopped(self, player: int) -> float:
        return 0.0

    def won(self, player: int) -> bool:
        return self._won

    def is_success(self, hands: Sequence[HandResult]) -> bool:
        return bool(hands) and all(hand.success for hand in hands)

    def metrics(self) -> dict[str, float]:
        """`commands`: carried out so far; `plan_length`: of a shortest plan, left out where none is known."""
        found = {"commands": float(len(self._commands))}
        plan = None if self._task is None else self.plan(self._task)
        return found if plan is None else {**found, "plan_length": float(len(plan))}

    def plan(self, task_id: str) -> tuple[str, ...] | None:
        """The commands of a shortest plan for a game, None where none is known."""
        return self._source.plan(task_id)


def _rebuilt(game: type[ALFWorld], options: Mapping[str, Any]) -> ALFWorld:
    return game(**options)


def _split(split: str) -> str:
    name = ALIASES.get(split, split)
    if name not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; choose one of: {', '.join((*SPLITS, *ALIASES))}.")
    return name


def _task_types(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return TASK_TYPES
    wanted = (given,) if isinstance(given, str) else tuple(given)
    unknown = [one for one in wanted if one not in TASK_TYPES]
    if unknown or not wanted:
        raise ValueError(f"task_types={given!r} is unknown; choose one or several of: {', '.join(TASK_TYPES)}.")
    return tuple(one for one in TASK_TYPES if one in wanted)


def _source(data: str | os.PathLike[str], split: str, task_types: tuple[str, ...], size: str | None) -> GameSource:
    if data == "generated":
        return MadeGames(split, task_types, size or "official-like")
    if size is not None:
        raise ValueError(f'size={size!r} is for data="generated"; leave it out with data={str(data)!r}.')
    root = data_root() if data == "official" else data
    if root is None:
        raise NoGames(
            'data="official" needs the environment variable ALFWORLD_DATA to name the folder that alfworld-download '
            'filled; or give data="PATH", or play without it: data="generated".'
        )
    return GameFiles(split, task_types, root)
