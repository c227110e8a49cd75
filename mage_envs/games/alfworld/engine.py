"""ALFWorld's fast engine: the real planner library holds the state, and nothing is parsed during a game.

Texts, admissible commands and the won flag equal those of textworld's `PddlEnv` with alfworld's names. `stock` is that
engine itself. The first load of a game costs one translation (0.1 to 1 s), which is then cached on disk. A start takes
a few milliseconds and a move about 0.1 ms. Game files are data here: a grammar that needs more Python than attributes
of objects is refused.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import NamedTuple

from mage_envs.games.alfworld.compiled import Choices, CompiledGame
from mage_envs.games.alfworld.facts import Facts
from mage_envs.games.alfworld.gamefile import GameLike
from mage_envs.games.alfworld.library import Library
from mage_envs.games.alfworld.store import POOL, STORE

NOTHING = "Nothing happens."
"""Feedback for a command that is not admissible."""


class EngineState(NamedTuple):
    """Result of a start or a command."""

    feedback: str
    admissible_commands: tuple[str, ...]
    """Sorted."""
    won: bool
    """True if the goal holds now. The engine accepts further commands."""
    accepted: bool
    """True if the command was admissible. Otherwise nothing has changed."""


class Engine(ABC):
    """One running game."""

    @abstractmethod
    def load(self, game: GameLike) -> None:
        """Load a game: a mapping with the keys of a game file, or a path. Raise GameFileError, ImportError."""

    @abstractmethod
    def reset(self) -> EngineState:
        """Start the loaded game."""

    @abstractmethod
    def step(self, command: str) -> EngineState:
        """Execute a command. Blanks around it are ignored. Raise TypeError if it is not a string."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the engine. It can load a game again."""


class FastEngine(Engine):
    """The fast engine. A process may run many of them, each used by one thread at a time."""

    def __init__(self) -> None:
        self.game: CompiledGame | None = None
        self._library: Library | None = None
        self._release: weakref.finalize[..., FastEngine] | None = None
        self._facts: Facts = {}
        self._choices = Choices((), {})
        self._won = False

    def load(self, game: GameLike | CompiledGame) -> None:
        self.game = game if isinstance(game, CompiledGame) else STORE.load(game)

    def reset(self) -> EngineState:
        game = self.game
        if game is None:
            raise RuntimeError("No game is loaded; call load first.")
        library = self._library
        # A library that has loaded the game already starts it without parsing the SAS text.
        if library is None or library.key != game.key:
            library = self._take(game.key)
        library.start(game.key, game.sas)
        self._facts = game.first_facts()
        self._choices = game.choices(library)
        self._won = game.starts_won
        return EngineState(game.intro, self._choices.commands, self._won, True)

    def step(self, command: str) -> EngineState:
        if not isinstance(command, str):
            raise TypeError(f"A command must be a string, got {type(command).__name__}.")
        game, library = self.game, self._library
        if game is None or library is None or library.key != game.key:
            raise RuntimeError("The game has not started; call reset first.")
        number = self._choices.operators.get(command.strip())
        if number is None:
            return EngineState(NOTHING, self._choices.commands, self._won, False)
        feedback = game.apply(library, self._facts, number)
        self._choices = game.choices(library)
        self._won = library.goal_holds()
        return EngineState(feedback, self._choices.commands, self._won, True)

    def close(self) -> None:
        if self._release is not None:
            self._release()
        self._library = self._release = None

    def _take(self, key: str) -> Library:
        """Exchange the copy of the library. The pool gets it back when the engine is closed or garbage-collected."""
        self.close()
        self._library = POOL.take(key)
        self._release = weakref.finalize(self, POOL.give_back, self._library)
        # At the exit of the process, no other engine could use the copy.
        self._release.atexit = False
        return self._library
