"""textworld's own `PddlEnv` behind alfworld's own wrapper, for comparison with the fast engine.

It is about a hundred times slower. Each of its copies of the planner keeps 34 MB of the temporary folder until the
process ends, so the environments are pooled. Its grammar runs any Python in a game file, so load only files that you
trust.
"""

from __future__ import annotations

from typing import Any

from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld.engine import Engine, EngineState
from mage_envs.games.alfworld.errors import GameFileError, describe
from mage_envs.games.alfworld.gamefile import GameLike, read_game

_free: list[Any] = []
"""Stock environments that no engine uses."""


class StockEngine(Engine):
    """The stock engine, with the fast engine's interface."""

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
