"""The registry of games. One call registers a game's Gymnasium ids and its PettingZoo id."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

import gymnasium as gym
import pettingzoo

from mage_envs.core import Game
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import load_registered
from mage_envs.settings import GameSettings

GROUP = "mage_envs.games"
"""Entry-point group in which other packages announce games: name = game name, value = `module:Class`."""

_GAMES: dict[str, str] = {}
_SETTINGS: dict[str, GameSettings | str] = {}
_OPPONENTS: dict[str, str] = {}
DEFAULTS = GameSettings()
ENV, META_ENV = "mage_envs.loading.entry_points:make_env", "mage_envs.loading.entry_points:make_meta_env"
"""Entry points in the specifications of the ids that this package registers."""


class UnknownGame(KeyError):
    """Error for a game name that is not registered."""

    def __str__(self) -> str:
        # KeyError would print the message in quotes.
        return str(self.args[0])


def register_game(
    name: str,
    entry_point: str | type[Game],
    *,
    settings: GameSettings | str = DEFAULTS,
    kwargs: Mapping[str, Any] | None = None,
    opponents: Mapping[str, str] | None = None,
) -> None:
    """Register `mage/<name>-v0` and `mage/<name>-Meta-v0` in Gymnasium and `mage/<name>-v0` in PettingZoo.

    Registering the same entry point again does nothing.

    Args:
        name: Name of the game in its ids.
        entry_point: `"module:Class"`, imported when the game is created, or the class itself.
        settings: Settings of prompts and training, or their `"module:NAME"`.
        kwargs: Default options of the game in its ids.
        opponents: Prefix of opponents' names (`kuhn` of `kuhn/nash`) to the module that registers these opponents and
            their pools. The module is imported when such a name is first used.

    Raises:
        ValueError: If a name is invalid, or if the name or a prefix belongs to another entry point.
    """
    target = entry_point if isinstance(entry_point, str) else f"{entry_point.__module__}:{entry_point.__qualname__}"
    if ":" not in target:
        raise ValueError(f"register_game({name!r}, {target!r}): the entry point must have the form 'module:Class'.")
    if not name.isidentifier():
        raise ValueError(f"register_game({name!r}): a game's name is letters, digits and '_' alone, as in 'KuhnPoker'.")
    if _GAMES.get(name, target) != target:
        raise ValueError(f"Game {name!r} is already registered as {_GAMES[name]}; choose another name for {target}.")
    for prefix, module in (opponents or {}).items():
        if _OPPONENTS.get(prefix, module) != module:
            raise ValueError(f"Opponents {prefix!r} are already registered by {_OPPONENTS[prefix]}, not by {module}.")
    if name in _GAMES:
        return
    _OPPONENTS.update(opponents or {})
    _GAMES[name] = target
    _SETTINGS[name] = settings
    arguments = {"game_name": name, **(kwargs or {})}
    for kind, maker in (("v0", "make_env"), ("Meta-v0", "make_meta_env")):
        gym.register(
            f"mage/{name}-{kind}",
            entry_point=f"mage_envs.loading.entry_points:{maker}",
            vector_entry_point=f"mage_envs.loading.entry_points:{maker}s",
            # The environments raise ResetNeeded themselves.
            order_enforce=False,
            # `mage_envs.testing.check_id` checks more, and only once, not in each environment.
            disable_env_checker=True,
            kwargs=arguments,
        )
    pettingzoo.register("aec", f"mage/{name}-v0", entry_point="mage_envs.aec:env", kwargs={"game_name": name})


def list_games() -> tuple[str, ...]:
    """Return all registered names, sorted."""
    return tuple(sorted(_GAMES))


def opponent_modules() -> Mapping[str, str]:
    """Return the registered prefixes of opponents' names, each with the module that registers these opponents."""
    return dict(_OPPONENTS)


def load_game(name: str) -> type[Game]:
    """Return the class of a registered game. Raises UnknownGame, or ImportError with the missing package."""
    if name not in _GAMES:
        hint = nearest_name(name, _GAMES)
        raise UnknownGame(f"Unknown game {name!r}.{hint} list_games() returns all names: {', '.join(list_games())}.")
    module, _, attribute = _GAMES[name].partition(":")
    loaded: type[Game] = load_registered(module).__dict__[attribute]
    return loaded


def make_game(name: str, **kwargs: Any) -> Game:
    """Return a new game with these options. Raises TypeError with the option that the game does not have."""
    game = load_game(name)
    try:
        return game(**kwargs)
    except TypeError as error:
        raise TypeError(f"{name} does not take these options: {error}.") from error


def settings_of(name: str) -> GameSettings:
    """Return the settings of a registered game."""
    load_game(name)
    settings = _SETTINGS[name]
    if isinstance(settings, GameSettings):
        return settings
    module, _, attribute = settings.partition(":")
    loaded: GameSettings = load_registered(module).__dict__[attribute]
    return loaded


def load_plugins() -> None:
    """Register the games that installed packages announce. Only names are read; no module of theirs is imported."""
    for point in entry_points(group=GROUP):
        if point.name not in _GAMES:
            register_game(point.name, point.value)
