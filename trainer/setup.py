"""From a `MAGEConfig` to what a run is made of: environments, opponents, the settings that a saved model carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.imports import load_modules
from opponents import FixedPool, League, Population, PrioritisedPool, as_pool
from trainer.advantages import CreditConfig
from trainer.config import MAGEConfig
from trainer.critic import ExactCritic
from trainer.saved import PlaySettings
from wrappers.protocol import ADAPTIVE


def env_kwargs(config: MAGEConfig) -> dict[str, Any]:
    """Keyword arguments of the Meta id, opponents left out."""
    chosen = {
        "num_episodes": config.num_episodes,
        "protocol": config.protocol,
        "memory": config.memory,
        "context": config.context,
        "style": config.prompt_style,
        **cast("dict[str, Any]", config.env_kwargs or {}),
    }
    return chosen if config.seat is None else {**chosen, "seat": config.seat}


def env_maker(config: MAGEConfig) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes one environment of the run; what `config.imports` names is imported now."""
    load_modules(config.imports, "imports")
    kwargs = env_kwargs(config)
    if config.opponents is not None:
        kwargs["opponent"] = config.opponents
    return partial(gym.make, config.env_id, disable_env_checker=True, **kwargs)  # which worker processes can be sent


def pool_weights(config: MAGEConfig) -> Mapping[str, float] | None:
    """Names and weights of the training opponents; None for tasks without opponents."""
    env = env_maker(config)()
    players = env.get_wrapper_attr("facts").players if env.has_wrapper_attr("facts") else 1
    if players == 1:
        return None
    default = env.get_wrapper_attr("settings").opponent
    pool = as_pool(default if config.opponents is None else config.opponents)
    return {str(entry): weight for entry, weight in zip(pool.entries, pool.weights, strict=True)}


def make_population(config: MAGEConfig) -> Population | None:
    """The training opponents as `config.population` treats them; None for tasks without opponents."""
    pool = pool_weights(config)
    if pool is None:
        return None
    if config.population == "prioritised":
        return PrioritisedPool(pool, config.pfsp_curve)
    if config.population == "league":
        return League(pool, config.league_every, share=config.league_share, curve=config.pfsp_curve)
    return FixedPool(pool)


def credit_of(env: gym.Env[Any, Any], config: MAGEConfig) -> CreditConfig:
    """How the rewards of an environment become advantages: by its protocol, or as `adaptive` where it has none."""
    protocol = env.get_wrapper_attr("protocol") if env.has_wrapper_attr("protocol") else ADAPTIVE
    hands = env.get_wrapper_attr("hands_per_episode") if env.has_wrapper_attr("hands_per_episode") else 1
    return config.credit_config(protocol, hands)


def critic_of(env: gym.Env[Any, Any], config: MAGEConfig) -> ExactCritic | None:
    """The exact critic where `config.advantage` asks for it; raises for a game or an opponent that it cannot judge."""
    if config.advantage != "exact":
        return None
    critic = ExactCritic.of(env)
    for opponent in pool_weights(config) or ():
        critic.hand(opponent, 0)
    return critic


def play_settings(config: MAGEConfig) -> PlaySettings:
    """How the trained model must be asked."""
    return PlaySettings(
        env_id=config.env_id,
        env_kwargs=env_kwargs(config),
        max_new_tokens=int(config.max_completion_length or 1),
        temperature=config.temperature,
        constrained=config.constrained,
        imports=tuple(config.imports),
    )


def prompt_settings(config: MAGEConfig) -> dict[str, Any]:
    """What the game's settings, the protocol and the options make of limits, penalties and windows."""
    env = env_maker(config)()
    if not env.has_wrapper_attr("described"):
        return {}
    described = env.get_wrapper_attr("described")
    names = ("length_penalty", "invalid_penalty", "history_window", "full_turns", "reflect_window")
    return {"max_turns": described.max_turns} | {name: vars(described.settings)[name] for name in names}


def sample_prompts(config: MAGEConfig) -> dict[str, str]:
    """One full prompt of each kind, as the run's model will see them (seed 0, a scripted learner)."""
    env = env_maker(config)()
    observation, info = env.reset(seed=0)
    found = {"first play": observation}
    done = False
    while not done:
        reflects = info["phase"] == "reflect"
        found.setdefault(info["kind"] if reflects else "later play" if info["episode_index"] else "play", observation)
        answer = "an example of a plan" if reflects else next(iter(info["legal_actions"]), "")
        tag = info["answer_tag"]
        observation, _, done, _, info = env.step(f"<{tag}>{answer}</{tag}>" if tag else answer)
    found.pop("play", None)
    return found
