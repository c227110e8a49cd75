"""`Setting`: a panel with every option that decides what is played or shown, resolved and hashed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from os import PathLike
from os.path import exists
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.benchmarks.canonical import canonical, digest_of
from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs, seats_of
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.core import Game, Task
from mage_envs.settings import reward_name
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.env_metadata import EnvMetadata
from mage_envs.wrappers.make import make_meta_env
from mage_envs.wrappers.protocol import Protocol

_SHOWN = ("invalid_penalty", "length_penalty", "history_window", "full_turns", "reflect_window")
"""Settings of a game that affect the text of a prompt or the cost of an answer."""
_PLAYED = ("reward", "deal", "turn_limit", "seat", "early_stop", "timeout_reward")
"""Fields of a protocol that affect play and rewards of a meta-episode. The other fields belong to the trainer."""

DISPLAY = ("memory", "context", "style")
"""Options that an agent may choose. They change what it reads, and neither the game nor a payoff."""


@dataclass(frozen=True)
class Setting:
    """A panel and the options of its environment, at which an agent is measured."""

    panel: Panel
    name: str
    """Name of the panel with its size."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment in addition to the panel's own: protocol, num_episodes, memory, context, style and so
    on."""

    def __post_init__(self) -> None:
        if defaults := self.panel.default_options():
            object.__setattr__(self, "env_kwargs", {**defaults, **self.env_kwargs})
        fixed = self.panel.env_kwargs
        if overruled := sorted(key for key in fixed if self.env_kwargs.get(key, fixed[key]) != fixed[key]):
            fixed_values = ", ".join(f"{key}={fixed[key]!r}" for key in overruled)
            raise ValueError(f"Panel {self.name!r} fixes {fixed_values}. Remove the option, or use another panel.")
        if "opponent" in self.env_kwargs:
            raise ValueError(
                "The panel names the opponents, so opponent in --game-option has no effect. Use --opponents with --env."
            )
        seated = "seat" in self.env_kwargs and self.panel.opponents
        if seated and tuple(seats_of(self.panel.env_id, self.env_kwargs)) != tuple(self.panel.seats):
            raise ValueError(
                f"Panel {self.name!r} fixes the seats, so seat={self.env_kwargs['seat']!r} has no effect. "
                "Use --env and --opponents instead of the panel."
            )

    @property
    def game_name(self) -> str:
        """Return the name of the game, or the environment's id if its game is not registered."""
        name: str = gym.spec(self.panel.env_id).kwargs.get("game_name", self.panel.env_id)
        return name

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return the options for `gym.make`."""
        return {**self.env_kwargs, **self.panel.env_kwargs}

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks of the panel."""
        return self.panel.tasks(self.env_kwargs)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Return all options with their defaults as JSON values. Local files are replaced by the hash of their data.

        Raises:
            ValueError: If the id does not accept an option.
        """
        env_id = self.panel.env_id
        env = make_envs(env_id, self.options)[0]
        described: EnvMetadata = env.get_wrapper_attr("env_metadata")
        protocol: Protocol = env.get_wrapper_attr("protocol")
        game = game_of(env_id, self.options)
        env_kwargs = {key: value for key, value in (env.spec.kwargs if env.spec else {}).items() if key != "game_name"}
        defaults = {**inspect.signature(make_meta_env).parameters, **inspect.signature(MetaEpisode.__init__).parameters}
        own_options = _own_options(game, env_kwargs) if described.ends_by_itself else {}
        text_options = {key: env_kwargs.get(key, defaults[key].default) for key in ("memory", "context", "style")}
        settled = {
            "protocol",
            "num_episodes",
            "max_turns",
            "hands_per_episode",
            "deal",
            "reward",
            *text_options,
            *own_options,
            *_SHOWN,
        }
        # A default that is given explicitly is the same setting.
        settled |= {name for name, value in env_kwargs.items() if name in defaults and value == defaults[name].default}
        return {
            "env_id": env_id,
            **{key: _portable(value) for key, value in text_options.items()},
            "protocol": {name: vars(protocol)[name] for name in _PLAYED},
            "num_episodes": env.get_wrapper_attr("num_episodes"),
            "deal": env_kwargs.get("deal") or protocol.deal,
            "reward": reward_name(env_kwargs.get("reward") or protocol.reward),
            "hands_per_episode": described.hands,
            "max_turns": described.max_turns,
            "rules": sha256(described.spec.rules.encode()).hexdigest()[:16],
            "shown": {name: vars(described.settings)[name] for name in _SHOWN},
            "game": {key: _portable(value) for key, value in own_options.items()},
            "data": game.data_hash(),
            "further": {key: _portable(value) for key, value in sorted(env_kwargs.items()) if key not in settled},
        }

    def to_json(self) -> dict[str, Any]:
        """Return the panel's tasks and the options as JSON values."""
        tasks = [{key: value for key, value in task.to_json().items() if key != "env_id"} for task in self.tasks]
        return {
            "name": self.name,
            "options": self.resolved,
            "weights": self.panel.weights(),
            "meta_episodes": len(tasks),
            "tasks": digest_of(tasks),
        }

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical JSON without the name."""
        content = self.to_json()
        # Two names may denote the same tasks and options, and results are comparable by content.
        del content["name"]
        return sha256(canonical(content)).hexdigest()

    @property
    def most_calls(self) -> int:
        """Return the maximum number of model calls of the setting."""
        env = make_envs(self.panel.env_id, self.options)[0]
        steps: int = env.get_wrapper_attr("max_steps")
        return len(self.tasks) * steps

    def with_options(self, **options: Any) -> Setting:
        """Return the setting with further options."""
        return replace(self, env_kwargs={**self.env_kwargs, **options})


def _own_options(game: Game, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the game's own options with their defaults."""
    parameters = inspect.signature(type(game)).parameters.values()
    keywords = (p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return {p.name: env_kwargs.get(p.name, p.default) for p in keywords if p.default is not p.empty}


def _portable(value: Any) -> Any:
    """Return a JSON value that is equal on every machine: "local files" for a path, the class name for an object."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str | PathLike):
        path = Path(value)
        # `exists` is False for a text that is too long for a path; `Path.exists` would raise.
        # A bare name such as `small` may also exist in the current folder, so only paths with a folder are checked on
        # disk.
        local = path.is_absolute() or (len(path.parts) > 1 and exists(path)) or not isinstance(value, str)
        return "local files" if local else value
    if isinstance(value, Mapping):
        return {str(key): _portable(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(element) for element in value]
    return f"{type(value).__module__}:{type(value).__qualname__}"
