"""ALFWorld: household tasks in text, on the real TextWorld engine."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mage_envs.core import Game, GameSpec, IllegalAction, State
from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld.data import GameFiles, GameSource, MadeGames, NoGames, data_root
from mage_envs.games.alfworld.engine import Engine, EngineState, FastEngine
from mage_envs.games.alfworld.errors import GameFileError, describe
from mage_envs.games.alfworld.gamefile import GameLike, read_game
from mage_envs.games.alfworld.maker import SPLITS
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.games.alfworld.words import all_words, read_words
from mage_envs.loading.imports import check_path
from mage_envs.settings import GameSettings, success_or_nothing, success_reward
from mage_envs.text.words.spelling import ObservationWords

_free: list[Any] = []
"""Stock environments that no engine uses."""


class StockEngine(Engine):
    """textworld's own `PddlEnv` behind alfworld's own wrapper, for comparison with the fast engine.

    It is about a hundred times slower. Each of its copies of the planner keeps 34 MB of the temporary folder until the
    process ends, so the environments are pooled. Its grammar runs any Python in a game file, so load only files that
    you trust.
    """

    def __init__(self) -> None:
        self._env: Any = None
        self._state: Any = None

    def load(self, game: GameLike) -> None:
        packages.library_path()
        text = read_game(game)
        content = {"pddl_domain": text.domain, "pddl_problem": text.problem, "grammar": text.grammar}
        if self._env is None:
            self._env = _free.pop() if _free else _new_env()
        self._state = None
        try:
            with packages.process_kept():
                self._env.load(content)
        except (Exception, SystemExit) as error:
            self.close()
            raise GameFileError(text.source, describe(error)) from error

    def reset(self) -> EngineState:
        if self._env is None:
            raise RuntimeError("No game is loaded; call load first.")
        with packages.process_kept():
            self._state = self._env.reset()
        return self._build_state(True)

    def step(self, command: str) -> EngineState:
        if not isinstance(command, str):
            raise TypeError(f"A command must be a string, got {type(command).__name__}.")
        if self._state is None:
            raise RuntimeError("The game has not started; call reset first.")
        self._state, _, _ = self._env.step(command)
        # textworld sets no action for a command that is not admissible.
        return self._build_state(self._state["_last_action"] is not None)

    def close(self) -> None:
        if self._env is not None:
            _free.append(self._env)
        self._env = self._state = None

    def _build_state(self, accepted: bool) -> EngineState:
        state = self._state
        return EngineState(state["feedback"], tuple(state["admissible_commands"]), bool(state["won"]), accepted)


def _new_env() -> Any:
    wrapper = packages.import_engine("alfworld.agents.environment.alfred_tw_env").AlfredDemangler
    env = packages.import_engine("textworld.envs.pddl").PddlEnv
    infos = packages.import_engine("textworld.core").EnvInfos
    return wrapper(env(infos(admissible_commands=True)))


BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"
HELP = "help"
ENGINES: Mapping[str, Callable[[], Engine]] = {"fast": FastEngine, "stock": StockEngine}
ALIASES: Mapping[str, str] = {"valid_seen": "eval_in_distribution", "valid_unseen": "eval_out_of_distribution"}


class Household(Game):
    """A game of household tasks on an engine."""

    banner = False
    """True to keep the engine's greeting in the first text."""

    @abstractmethod
    def category(self, task_id: str) -> str | None:
        """Return the class of a task, or None if there are no classes."""

    @abstractmethod
    def start_task(self, task_id: str) -> ALFWorldState:
        """Return the first state of a task. Raise GameFileError, ImportError."""

    @abstractmethod
    def plan(self, task_id: str) -> tuple[str, ...] | None:
        """Return the commands of a shortest plan for a task, or None if no plan is known."""


class ALFWorldState(State):
    """A point of a game, on its own engine. A move changes it, and `after` returns the state itself.

    When the state is garbage-collected, the resources of its engine return to the pool. A copy starts the same game on
    another engine and repeats the commands.
    """

    def __init__(self, game: Household, task_id: str, engine: Engine) -> None:
        """Start the game that `engine` has loaded.

        Args:
            game: Game that the task belongs to.
            engine: Engine that has loaded the task. The state closes it.

        Raises:
            GameFileError: If the goal holds before the first command.
        """
        self.task_id: str | None = task_id
        self.category = game.category(task_id)
        self._game, self._id = game, task_id
        self._engine = engine
        # Not at the exit of the process, when no other engine needs the resources.
        weakref.finalize(self, engine.close).atexit = False
        self._commands: list[str] = []
        """Commands executed so far."""
        engine_state = engine.reset()
        if engine_state.won:
            raise GameFileError(task_id, "its goal holds before the first command")
        self._take_in(engine_state)
        self._first = self._text

    def _take_in(self, engine_state: EngineState) -> None:
        text = engine_state.feedback.strip("\n")
        self._text = text if self._game.banner else text.removeprefix(BANNER)
        self._admissible = engine_state.admissible_commands
        self.done = engine_state.won
        self.player: int | None = None if engine_state.won else 0
        self.legal_actions: tuple[str, ...] = ()
        """The admissible commands except `help`, in alphabetical order."""
        if engine_state.won:
            self._text += "\nThe task is done."
        else:
            self.legal_actions = tuple([command for command in engine_state.admissible_commands if command != HELP])

    @property
    def returns(self) -> tuple[float, ...]:
        return (float(self.done),)

    def observation(self, seat: int) -> str:
        return self._text

    def information_state(self, seat: int) -> str:
        """Return the first text and every command since. They determine all texts of the engine."""
        return "\n> ".join((self._first, *self._commands))

    def after(self, action: str) -> ALFWorldState:
        return self.move(action)[1]

    def move(self, action: str) -> tuple[str, ALFWorldState]:
        command = self.canonical(action)
        if self.player is None or command not in self._admissible:
            raise IllegalAction(action, self.legal_actions)
        # First the engine, then the list: a failed step must not be repeated by a copy.
        self._take_in(self._engine.step(command))
        self._commands.append(command)
        return command, self

    def canonical(self, action: str) -> str:
        # The cut bounds the work on a long text. No command has 1,000 characters.
        plain = action[:1000].strip().lower()
        return plain if len(action) <= 1000 and plain in self._admissible else action

    def won(self, seat: int) -> bool:
        return self.done

    def metrics(self) -> dict[str, float]:
        """Return `commands` (executed so far) and, if a plan is known, `plan_length` (of a shortest plan)."""
        metrics = {"commands": float(len(self._commands))}
        return metrics if self._plan is None else {**metrics, "plan_length": float(len(self._plan))}

    @cached_property
    def _plan(self) -> tuple[str, ...] | None:
        return self._game.plan(self._id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _replay, (self._game, self._id, tuple(self._commands))


def _replay(game: Household, task_id: str, commands: tuple[str, ...]) -> ALFWorldState:
    state = game.start_task(task_id)
    for command in commands:
        state.move(command)
    return state


class ALFWorld(Household):
    """ALFWorld: household tasks in text, on the real TextWorld engine.

    Rules: there is one room with numbered receptacles and objects. The task is to put an object somewhere, perhaps
    after it was cleaned, heated or cooled, to put two, or to look at one under a lamp. It is won as soon as its goal
    holds. The player can only see and reach things at its place that are not behind a closed door. It carries one
    object at a time.

    Actions: the commands that the engine admits now, such as `go to fridge 1`. Leading and trailing blanks and the case
    are ignored. A text that the engine answers with "Nothing happens." is an illegal action. `help` is accepted if the
    game has it, but not listed.

    Observation: the engine's answer to the last command. At the start, it is the room and the task.

    Returns: 1 if the task is won, otherwise 0.

    Success: the task is done.

    Versions: v0.

    Args:
        split: `"train"` (default), `"eval_in_distribution"` (or `"valid_seen"`), or `"eval_out_of_distribution"` (or
            `"valid_unseen"`).
        data: `"generated"` (default, no download), `"official"` (from $ALFWORLD_DATA), or the path of a data set in the
            official layout. Game files may contain code: load only files that you trust.
        size: Size of generated games: `"official-like"` (default), `"small"` or `"tiny"`.
        task_types: One of the six task types, or several (default: all).
        engine: `"fast"` (default), or `"stock"` for TextWorld's own, which is about a hundred times slower.
        show_commands: True (default) if the player sees the admissible commands. If not, only `info["private"]` has
            them.
        banner: True to keep the engine's greeting in the first text (default: False).

    Raises:
        ValueError: If an option is unknown, or if `size` is used with game files.
        NoGames: If the data set has no playable game of these types.
        ImportError: If alfworld is not installed.
    """

    spec = GameSpec(
        name="ALFWorld",
        rules=(
            "You are in a room of a house and carry out a household task. Objects and places have numbers, as in "
            "apple 1 or fridge 2. You see only what is where you stand: go to a place to see what is on it, and open "
            "it, where it is closed, to see what is in it. You can hold one object at a time. Commands have the "
            "forms: go to PLACE, open PLACE, close PLACE, take OBJECT from PLACE, move OBJECT to PLACE (in some "
            "games: put OBJECT in/on PLACE), clean OBJECT with SINKBASIN, heat OBJECT with MICROWAVE, cool OBJECT "
            "with FRIDGE, slice OBJECT with KNIFE, use LAMP, examine OBJECT or PLACE, inventory, look. An action is "
            "one command, spelt exactly, as in: go to fridge 1. The episode ends as soon as the task is done."
        ),
        players=1,
        unit="tasks",
        min_return=0.0,
        max_return=1.0,
        max_turns=50,
        observation_words=ObservationWords(read_words),
    )

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
        self.split = _resolve_split(split)
        self.source = source_of(data, self.split, _task_types(task_types), size)
        """Games to draw from."""
        # Raises ImportError here, before anything is played, if a package of the engine is missing.
        packages.check_engine()
        self.spec = replace(
            type(self).spec,
            shows_legal_actions=show_commands,
            observation_words=ObservationWords(read_words, all_words()),
        )
        self.new_engine = ENGINES[engine]
        self.banner = banner

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options. The copy lists the games again."""
        return partial(type(self), **self._options), ()

    def initial_state(self, rng: np.random.Generator) -> ALFWorldState:
        return self.start_task(self.source.task_id(int(rng.integers(len(self.source)))))

    def task_state(self, task_id: str, rng: np.random.Generator) -> ALFWorldState:
        self.source.check(task_id)
        return self.start_task(task_id)

    def category(self, task_id: str) -> str:
        """Return the task type of a task."""
        return self.source.category(task_id)

    def start_task(self, task_id: str) -> ALFWorldState:
        """Return the first state of a task. Raise GameFileError, ImportError."""
        # Load before the state exists. An error of the parser keeps the surrounding frames alive, and a state in one of
        # them would keep its engine.
        engine = self.new_engine()
        engine.load(self.source.load(task_id))
        return ALFWorldState(self, task_id, engine)

    def data_hash(self) -> str:
        return self.source.data_hash()

    def plan(self, task_id: str) -> tuple[str, ...] | None:
        """Return the commands of a shortest plan for a task, or None if no plan is known."""
        return self.source.plan(task_id)


def _resolve_split(split: str) -> str:
    name = ALIASES.get(split, split)
    if name not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; choose one of: {', '.join((*SPLITS, *ALIASES))}.")
    return name


def _task_types(types: str | Sequence[str] | None) -> tuple[str, ...]:
    if types is None:
        return TASK_TYPES
    requested_types = (types,) if isinstance(types, str) else tuple(types)
    unknown = [task_type for task_type in requested_types if task_type not in TASK_TYPES]
    if unknown or not requested_types:
        raise ValueError(f"task_types={types!r} is unknown; choose one or several of: {', '.join(TASK_TYPES)}.")
    # In the package's order, so that equal sets of types give equal games for a seed.
    return tuple(task_type for task_type in TASK_TYPES if task_type in requested_types)


def source_of(data: str | os.PathLike[str], split: str, task_types: tuple[str, ...], size: str | None) -> GameSource:
    """Return the games of a split. The arguments are those of `ALFWorld`."""
    if data == "generated":
        return MadeGames(split, task_types, size or "official-like")
    if size is not None:
        raise ValueError(f'size={size!r} is for data="generated". Remove it with data={str(data)!r}.')
    if data != "official":
        check_path(data, "data")
    root = data_root() if data == "official" else data
    if root is None:
        raise NoGames(
            'data="official" requires the environment variable ALFWORLD_DATA. Set it to the folder of '
            'alfworld-download, pass data="PATH", or use data="generated".'
        )
    return GameFiles(split, task_types, root)


SETTINGS = GameSettings(
    turn_limits={"task": 30, "released": 10},
    rewards={"task": success_reward, "released": success_or_nothing},
    history_window=15,
    full_turns=15,
    reflect_window=15,
    references={
        "floor: random": "scripted:random",
        "expert without memory": "policy:alfworld/expert-without-memory",
        "expert with memory": "policy:alfworld/expert",
    },
)
