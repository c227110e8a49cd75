"""ALFWorld's engine, fast: the real planner library keeps the state, and nothing is parsed while a game runs.

Texts, admissible commands and the won flag are those of textworld's `PddlEnv` behind alfworld's names; see `stock` for
that engine itself. A game costs one translation when it is first seen (0.1 to 1 s, then kept on disk), a start a few
milliseconds, a move about a tenth of one. Game files are data here: a grammar that needs more Python than attributes
of objects is refused.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, Protocol

from mage_envs.games.alfworld.compiled import Choices, CompiledGame
from mage_envs.games.alfworld.facts import Facts
from mage_envs.games.alfworld.gamefile import GameLike
from mage_envs.games.alfworld.library import Library
from mage_envs.games.alfworld.store import POOL, STORE

NOTHING = "Nothing happens."
"""Feedback to a command that is none of the admissible ones."""


class EngineState(NamedTuple):
    """What the engine says after a start or a command."""

    feedback: str
    admissible_commands: tuple[str, ...]
    """Sorted."""
    won: bool
    """Whether the goal holds now; the engine plays on."""
    accepted: bool
    """Whether the command was admissible; if not, nothing has changed."""


class Engine(Protocol):
    """One running game."""

    def load(self, game: GameLike) -> None:
        """Takes a game, a mapping with the keys of a game file or a path. Raises GameFileError, ImportError."""

    def reset(self) -> EngineState:
        """Starts the loaded game."""
        ...

    def step(self, command: str) -> EngineState:
        """Carries out a command; blanks around it do not count. Raises TypeError for anything but text."""
        ...

    def close(self) -> None:
        """Gives back what the engine holds; it can load again."""


class FastEngine:
    """The fast engine; many may run in one process, each used by one thread at a time."""

    def __init__(self) -> None:
        self.game: CompiledGame | None = None
        self._library: Library | None = None
        self._release: weakref.finalize[..., FastEngine] | None = None
        self._facts: Facts = {}
        self._choices = Choices((), {})
        self._won = False

    def load(self, game: GameLike | CompiledGame) -> None:
        self.game = game if isinstance(game, CompiledGame) else STORE.compiled(game)

    def reset(self) -> EngineState:
        game = self.game
        if game is None:
            raise RuntimeError("No game is loaded; call load first.")
        library = self._library
        if library is None or library.key != game.key:
            library = self._take(game.key)
        library.start(game.key, game.sas)
        self._facts = game.first_facts()
        self._choices = game.choices(library)
        self._won = game.starts_won
        return EngineState(game.intro, self._choices.commands, self._won, True)

    def step(self, command: str) -> EngineState:
        if not isinstance(command, str):
            raise TypeError(f"A command must be text, not {type(command).__name__}.")
        game, library = self.game, self._library
        if game is None or library is None or library.key != game.key:
            raise RuntimeError("The game has not started; call reset first.")
        number = self._choices.operators.get(command.strip())
        if number is None:
            return EngineState(NOTHING, self._choices.commands, self._won, False)
        feedback = game.apply(library, self._facts, number)
        self._choices = game.choices(library)
        self._won = library.won()
        return EngineState(feedback, self._choices.commands, self._won, True)

    def close(self) -> None:
        if self._release is not None:
            self._release()
        self._library = self._release = None

    def _take(self, key: str) -> Library:
        """Another copy of the library; it goes back to the pool when the engine is closed or forgotten."""
        self.close()
        self._library = POOL.take(key)
        self._release = weakref.finalize(self, POOL.give_back, self._library)
        self._release.atexit = False
        return self._library
