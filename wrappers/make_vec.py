"""Entry points of `gym.make_vec`: several environments of one id. The registered ids name these functions by string.

`gym.make_vec(id, num_envs=n, **options)` accepts the options of the id, and these:
* `autoreset_mode`: Gymnasium's `AutoresetMode` or its value (default: NEXT_STEP);
* `workers`: number of worker processes that share the environments (default: 0, all environments run in this process);
* `deadline`: timeout in seconds of a worker per step or reset (default: 600, 0 disables it). If a worker times out,
  it counts as dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from mage_envs.processes.watchdog import CALL_TIMEOUT_S
from mage_envs.registry import list_games, load_game, register_game, settings_of
from mage_envs.settings import GameSettings
from mage_envs.vector.text_vector import LoopVectorEnv, TextVectorEnv
from mage_envs.vector.workers import WorkerVectorEnv
from mage_envs.wrappers.make import make_env, make_meta_env
from mage_envs.wrappers.memories import refuse_instance


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Picklable constructor of one environment of a vector environment, for use in any process."""

    make: Callable[..., gym.Env[str, str]]
    game_name: str
    options: Mapping[str, Any]
    entry_point: str
    settings: GameSettings

    def __call__(self) -> gym.Env[str, str]:
        # A worker process does not run the user's script, so a game that the script registered is unknown here.
        if self.game_name not in list_games():
            register_game(self.game_name, self.entry_point, settings=self.settings)
        return self.make(self.game_name, **self.options)


def make_envs(game_name: str, num_envs: int = 1, **options: Any) -> TextVectorEnv:
    """Return a vector environment of `mage/<game>-v0`, of a registered game, with the options above."""
    return _make(make_env, game_name, num_envs, **options)


def make_meta_envs(game_name: str, num_envs: int = 1, **options: Any) -> TextVectorEnv:
    """Return a vector environment of `mage/<game>-Meta-v0`, of a registered game, with the options above."""
    return _make(make_meta_env, game_name, num_envs, **options)


def _make(
    make: Callable[..., gym.Env[str, str]],
    game_name: str,
    num_envs: int,
    *,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    workers: int = 0,
    deadline: float | None = None,
    **options: Any,
) -> TextVectorEnv:
    # Two meta-episodes that run at the same time would overwrite each other's items in one shared strategy.
    if num_envs > 1 and "memory" in options:
        refuse_instance(options["memory"])
    kind = load_game(game_name)
    recipe = Recipe(
        make=make,
        game_name=game_name,
        options=options,
        entry_point=f"{kind.__module__}:{kind.__qualname__}",
        settings=settings_of(game_name),
    )
    render_mode = options.get("render_mode")
    if workers:
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r}: environments in workers do not render. Set workers=0.")
        limit = CALL_TIMEOUT_S if deadline is None else deadline
        return WorkerVectorEnv(recipe, num_envs, workers=workers, deadline=limit, autoreset_mode=autoreset_mode)
    if deadline is not None:
        raise ValueError(f"deadline={deadline!r} needs workers: an environment of this process cannot be interrupted.")
    return LoopVectorEnv(recipe, num_envs, autoreset_mode=autoreset_mode)
