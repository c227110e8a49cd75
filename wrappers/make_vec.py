"""The composition root of vector environments: `gym.make_vec` calls it by name; nothing imports it.

`gym.make_vec(id, num_envs=n, **options)` takes the id's own options and
* `autoreset_mode`: Gymnasium's `AutoresetMode` or its value, NEXT_STEP by default;
* `workers`: how many processes share the environments; 0 (default): all of them are in this process;
* `deadline`: seconds that a worker has for a step or reset; a worker that takes longer counts as dead. None: forever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from mage_envs.registry import list_games, load_game, register_game
from mage_envs.table_env import TableEnv
from mage_envs.vector.sokoban_vector import SokobanVectorEnv, is_plain_sokoban
from mage_envs.vector.table_vector import TableVectorEnv, is_tabulated
from mage_envs.vector.text_vector import LoopVectorEnv, TextVectorEnv
from mage_envs.vector.workers import WorkerVectorEnv
from wrappers.make import SeatedOpponents, make_env, make_meta_env


@dataclass(frozen=True)
class Recipe:
    """Makes one environment of a vector environment, in any process."""

    make: Callable[..., gym.Env[str, str]]
    game_name: str
    options: Mapping[str, Any]
    entry_point: str

    def __call__(self) -> gym.Env[str, str]:
        if self.game_name not in list_games():  # a worker that never ran the script which registered the game
            register_game(self.game_name, self.entry_point)
        try:
            # A policy that is given as an object holds one hand, so every environment gets its own.
            options = deepcopy(dict(self.options))
        except TypeError as error:
            raise TypeError(
                f"{self.game_name}: the options cannot be copied for every environment ({error}); give the opponent by "
                "name, or as 'module:Class'."
            ) from error
        return self.make(self.game_name, **options)


def make_envs(game_name: str, num_envs: int = 1, **options: Any) -> TextVectorEnv:
    """`mage/<game>-v0`, `num_envs` times."""
    return _make(make_env, game_name, num_envs, **options)


def make_meta_envs(game_name: str, num_envs: int = 1, **options: Any) -> TextVectorEnv:
    """`mage/<game>-Meta-v0`, `num_envs` times."""
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
    kind = load_game(game_name)
    recipe = Recipe(make, game_name, options, f"{kind.__module__}:{kind.__qualname__}")
    render_mode = options.get("render_mode")
    if workers:
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r}: environments in workers do not render; leave workers out.")
        return WorkerVectorEnv(recipe, num_envs, workers=workers, deadline=deadline, autoreset_mode=autoreset_mode)
    if deadline is not None:
        raise ValueError(f"deadline={deadline!r} needs workers: nothing can interrupt an environment of this process.")
    env = recipe()
    if render_mode is None and is_plain_sokoban(env):
        return SokobanVectorEnv(recipe, num_envs, autoreset_mode=autoreset_mode)
    if type(env) is TableEnv and render_mode is None and isinstance(env.opponents, SeatedOpponents):
        seated = env.opponents.mixture()
        if is_tabulated(seated):
            return TableVectorEnv(recipe, env, seated, num_envs, autoreset_mode=autoreset_mode)
    return LoopVectorEnv(recipe, num_envs, autoreset_mode=autoreset_mode)
