"""The registry of games. One call registers a game's Gymnasium ids and its PettingZoo id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym
import pettingzoo

from mage_envs.core import Game, GameSpec
from mage_envs.exceptions import reason_of
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.extras import describe_missing
from mage_envs.loading.imports import load_entry
from mage_envs.loading.plugins import find_entry_points, warn_of
from mage_envs.settings import PAID_BY_RETURN, GameSettings, outcome_reward, success_reward

GROUP = "mage_envs.games"
"""Entry-point group in which other packages announce games: name = game name, value = `module:Class`."""

_GAMES: dict[str, str] = {}
_SETTINGS: dict[str, GameSettings | str] = {}
_OPPONENTS: dict[str, str] = {}
_ANNOUNCED: set[str] = set()
"""Names of games that installed packages announce. Their modules complete the registrations when they are imported."""
_FINDERS: dict[str, str] = {}
"""Registered game to the `module:function` that returns its options for a name that is not registered, or None."""
DEFAULTS = GameSettings()
GENERAL_SUM = GameSettings(rewards={**PAID_BY_RETURN, "sign": outcome_reward})
"""Settings of a general-sum game that has none of its own."""
_ENV_ID = re.compile(r"(mage/)?(?P<game>.+?)(-(?P<kind>v0|Meta-v0))?")
ENV, META_ENV = "mage_envs.wrappers.make:make_env", "mage_envs.wrappers.make:make_meta_env"
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
    settings: GameSettings | str | None = None,
    opponents: Mapping[str, str] | None = None,
    finder: str = "",
) -> None:
    """Register `mage/<name>-v0` and `mage/<name>-Meta-v0` in Gymnasium and `mage/<name>-v0` in PettingZoo.

    Registering the same entry point again replaces the settings and opponents that it names. The module of an
    installed game does this: its name is registered before the module is imported.

    Args:
        name: Name of the game in its ids.
        entry_point: `"module:Class"`, imported when the game is created, or the class itself.
        settings: Settings of prompts and training, or their `"module:NAME"`. If None, those that suit any game.
        opponents: Prefix of opponents' names (`kuhn` of `kuhn/nash`) to the module that registers these opponents and
            their pools. The module is imported when such a name is first used.
        finder: `"module:function"` for a game that stands for many, such as OpenSpiel. The function returns the game's
            options for a name like `kuhn_poker`, or None if the name is not one of its games.

    Raises:
        ValueError: If a name is invalid, or if the name or a prefix belongs to another entry point.
    """
    target = entry_point if isinstance(entry_point, str) else f"{entry_point.__module__}:{entry_point.__qualname__}"
    if ":" not in target:
        raise ValueError(f"register_game({name!r}, {target!r}): the entry point must have the form 'module:Class'.")
    if not name.isidentifier():
        raise ValueError(f"register_game({name!r}): a game's name is letters, digits and '_' alone, as in 'KuhnPoker'.")
    registered_target = _GAMES.get(name, target)
    # A package may announce a class by another path than that of its own module.
    completes = name in _ANNOUNCED and re.split("[.:]", registered_target)[0] == re.split("[.:]", target)[0]
    if registered_target != target and not completes:
        raise ValueError(
            f"Game {name!r} is already registered as {registered_target}; choose another name for {target}."
        )
    for prefix, module in (opponents or {}).items():
        if _OPPONENTS.get(prefix, module) != module:
            raise ValueError(f"Opponents {prefix!r} are already registered by {_OPPONENTS[prefix]}, not by {module}.")
    _OPPONENTS.update(opponents or {})
    if settings is not None:
        _SETTINGS[name] = settings
    is_new = name not in _GAMES
    _GAMES[name] = target
    if finder:
        _FINDERS[name] = finder
    if not is_new:
        return
    for kind, maker in (("v0", "make_env"), ("Meta-v0", "make_meta_env")):
        gym.register(
            f"mage/{name}-{kind}",
            # By name: `wrappers` is a layer above this package and imports it.
            entry_point=f"mage_envs.wrappers.make:{maker}",
            vector_entry_point=f"mage_envs.wrappers.make_vec:{maker}s",
            # The environments raise ResetNeeded themselves.
            order_enforce=False,
            # `mage_envs.testing.check_id` checks more, and only once, not in each environment.
            disable_env_checker=True,
            kwargs={"game_name": name},
        )
    # PettingZoo has a registry since 1.27. `mage_envs.aec` makes the environment in any version.
    if hasattr(pettingzoo, "register"):
        pettingzoo.register("aec", f"mage/{name}-v0", entry_point="mage_envs.aec:env", kwargs={"game_name": name})


def list_games() -> tuple[str, ...]:
    """Return all registered names, sorted."""
    return tuple(sorted(_GAMES))


def opponent_modules() -> Mapping[str, str]:
    """Return the registered prefixes of opponents' names, each with the module that registers these opponents."""
    return dict(_OPPONENTS)


def find_game(name: str) -> tuple[str, dict[str, Any]]:
    """Return the registered name and the options of a game: `kuhn_poker` is `OpenSpiel` with `game="kuhn_poker"`.

    Raises:
        UnknownGame: If there is no such game.
    """
    if name in _GAMES:
        return name, {}
    for game, finder in _FINDERS.items():
        if (options := load_entry(finder)(name)) is not None:
            return game, options
    hint = nearest_name(name, _GAMES)
    raise UnknownGame(f"Unknown game {name!r}.{hint} list_games() returns all names: {', '.join(list_games())}.")


def find_env(env_id: str) -> tuple[str, dict[str, Any]]:
    """Return the registered id and the options of an environment that a user names.

    A game's name stands for its meta-episode: `KuhnPoker` is `mage/KuhnPoker-Meta-v0`, and `kuhn_poker` is
    `mage/OpenSpiel-Meta-v0` with `game="kuhn_poker"`, as is `mage/kuhn_poker-Meta-v0`. Any other id is returned as it
    is, so that Gymnasium reports an unknown one.
    """
    parts = _ENV_ID.fullmatch(env_id)
    if env_id in gym.registry or parts is None:
        return env_id, {}
    try:
        name, options = find_game(parts["game"])
    except UnknownGame:
        return env_id, {}
    return f"mage/{name}-{parts['kind'] or 'Meta-v0'}", options


def load_game(name: str) -> type[Game]:
    """Return the class of a game. Raises UnknownGame, or ImportError with the missing package."""
    loaded: type[Game] = load_entry(_GAMES[find_game(name)[0]])
    return loaded


def make_game(name: str, **kwargs: Any) -> Game:
    """Return a new game with these options. Raises TypeError with the option that the game does not have."""
    game, (_, game_options) = load_game(name), find_game(name)
    try:
        return game(**game_options, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name} does not take these options: {error}.") from error


def explain_unavailable(name: str, **kwargs: Any) -> str:
    """Return why a registered game cannot be made here, such as a missing engine, or an empty text if it can.

    Commands that list many games call it, so that such a game costs one row. A game that builds its data is only
    imported, unless there are options.
    """
    try:
        if kwargs or not getattr(load_game(name), "builds_data", False):
            make_game(name, **kwargs)
    except ImportError as error:
        return describe_missing(error)
    except Exception as error:
        # A game of another package may raise anything, and must not cost the rows of the others.
        return reason_of(error)
    return ""


def settings_of(name: str, spec: GameSpec | None = None) -> GameSettings:
    """Return the settings of a game.

    Args:
        spec: Facts of an instance. A general-sum game without rewards of its own is then paid by the size of its
            return, because a positive return is no success there.
    """
    load_game(name)
    # The import of the game may have registered its settings.
    settings = _SETTINGS.get(find_game(name)[0], DEFAULTS)
    if settings is DEFAULTS and spec is not None and spec.general_sum:
        return GENERAL_SUM
    if isinstance(settings, GameSettings):
        return settings
    loaded: GameSettings = load_entry(settings)
    return loaded


def headline(game: Game) -> Literal["returns", "success"]:
    """Return the headline measure of a game.

    It is success if the task is to win or to solve something. It is the game's own unit if the size of the return
    counts, as in a general-sum game, or if the game is not registered.
    """
    name = game.spec.name
    if name not in list_games():
        return "returns"
    wins = game.spec.players == 1 or settings_of(name, game.spec).rewards.get("task") in (
        outcome_reward,
        success_reward,
    )
    return "success" if wins else "returns"


def load_plugins() -> None:
    """Register the games that installed packages announce. Only names are read; no module of theirs is imported.

    An announcement that is not valid is ignored with a warning.
    """
    for point in find_entry_points(GROUP):
        if point.name in _GAMES:
            continue
        try:
            # Without the extras that may follow in brackets.
            register_game(point.name, point.value.partition("[")[0].strip())
        except ValueError as error:
            warn_of(point, "Games", error)
        else:
            _ANNOUNCED.add(point.name)
