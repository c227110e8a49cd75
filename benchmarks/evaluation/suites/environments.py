"""Environments of an evaluation: meta-episodes of any registered id, with all wrappers of the id."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.cli.commands import describe_error
from mage_envs.core import Game, GameSpec, State, Task
from mage_envs.loading.arguments import nearest_name
from mage_envs.opponents import make_opponent
from mage_envs.registry import list_games, load_game
from mage_envs.wrappers.env_metadata import EnvMetadata
from mage_envs.wrappers.make import META_OPTIONS, make_meta_env
from mage_envs.wrappers.memories import refuse_instance


class _TextAlone(Game):
    """Substitute for the game of a foreign environment: it has facts, but no states."""

    def __init__(self, facts: GameSpec) -> None:
        self.spec = facts

    def initial_state(self, rng: np.random.Generator) -> State:
        raise TypeError(f"{self.spec.name} is a foreign environment, so its game has no states.")


def _nearest_option(env_id: str, options: Mapping[str, Any]) -> str:
    """Return a hint for the first option that is unknown to one of our ids; empty if all options are known."""
    game = gym.spec(env_id).kwargs.get("game_name")
    if game not in list_games():
        return ""
    accepted = [
        *META_OPTIONS,
        *inspect.signature(make_meta_env).parameters,
        *inspect.signature(load_game(game)).parameters,
    ]
    unknown = next((name for name in options if name not in accepted), None)
    return "" if unknown is None else f" unknown option {unknown!r}.{nearest_name(unknown, accepted)}"


def make_envs(env_id: str, env_kwargs: Mapping[str, Any] | None = None, count: int = 1) -> list[gym.Env[Any, Any]]:
    """Return environments of an id that is a `MetaEpisode`, wrapped or not.

    Raises:
        ValueError: If the id is unknown or is not a meta-episode, or if it does not accept an option.
    """
    options = dict(env_kwargs or {})
    make = env_maker(env_id, env_kwargs)
    try:
        envs = [make() for _ in range(count)]
    except gym.error.UnregisteredEnv as error:
        raise ValueError(f"Unknown environment {env_id!r}: {describe_error(error)}") from error
    except TypeError as error:
        raise ValueError(
            f"{env_id} could not be made with {options}:{_nearest_option(env_id, options)} {error}"
        ) from error
    if not envs[0].has_wrapper_attr("env_metadata"):
        raise ValueError(f"Environment {env_id!r} is not a meta-episode. Use an id that ends with -Meta-v0.")
    return envs


def env_maker(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes one environment in any process.

    Raises:
        ValueError: If the memory is an instance, which the environments would share.
    """
    if env_kwargs and "memory" in env_kwargs:
        refuse_instance(env_kwargs["memory"])
    # A partial can be sent to worker processes. Gymnasium's checker would run in each environment, although
    # `mage_envs.testing.check_id` already checks more, and only once.
    return partial(gym.make, env_id, disable_env_checker=True, **(env_kwargs or {}))


def check_opponents(tasks: Sequence[Task], game: Game) -> None:
    """Construct each opponent of the tasks once, so that an error is raised before play."""
    # The opponents of a foreign environment are unknown here.
    if isinstance(game, _TextAlone):
        return
    for name in dict.fromkeys(task.opponent for task in tasks):
        if name is not None:
            make_opponent(name, game)


def game_of(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> Game:
    """Return a new game of this id and its options, which no environment plays.

    The game has no states if the environment is foreign.
    """
    env = make_envs(env_id, env_kwargs)[0]
    described: EnvMetadata = env.get_wrapper_attr("env_metadata")
    game = env.get_wrapper_attr("game") if described.ends_by_itself else None
    return game if isinstance(game, Game) else _TextAlone(described.spec)


def seats_of(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> Sequence[int | None]:
    """Return the learner's possible seats in the first hand, or (None,) if the environment accepts no opponent."""
    env = make_envs(env_id, env_kwargs)[0]
    described: EnvMetadata = env.get_wrapper_attr("env_metadata")
    if described.spec.players == 1 or "opponent" not in described.reset_options:
        return (None,)
    seats: Sequence[int] = env.get_wrapper_attr("seats")
    return seats
