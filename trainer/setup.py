"""From a `MAGEConfig` to what a run is made of: environments, opponents, the settings that a saved model carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from opponents import FixedPool, League, Population, PrioritisedPool, as_pool
from trainer.config import MAGEConfig
from trainer.rollout import meta_episode
from trainer.saved import PlaySettings


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
    """A function that makes one environment of the run."""
    kwargs = env_kwargs(config)
    if config.opponents is not None:
        kwargs["opponent"] = config.opponents
    return lambda: gym.make(config.env_id, disable_env_checker=True, **kwargs)


def pool_weights(config: MAGEConfig) -> Mapping[str, float] | None:
    """Names and weights of the training opponents; None for tasks without opponents."""
    game = meta_episode(env_maker(config)()).game_env.game
    if game.num_players == 1:
        return None
    pool = as_pool(game.default_opponent if config.opponents is None else config.opponents)
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


def play_settings(config: MAGEConfig) -> PlaySettings:
    """How the trained model must be asked."""
    return PlaySettings(
        config.env_id,
        env_kwargs(config),
        int(config.max_completion_length or 1),
        config.temperature,
        config.constrained,
    )


def sample_prompts(config: MAGEConfig) -> dict[str, str]:
    """One full prompt of each kind, as the run's model will see them (seed 0, a scripted learner)."""
    env = meta_episode(env_maker(config)())
    observation, info = env.reset(seed=0)
    tags = (env.style.action_tag, env.style.remark_tag)
    found = {"first play": observation}
    done = False
    while not done:
        kind = "reflect" if info["phase"] == "reflect" else "later play" if info["episode"] else "play"
        found.setdefault(kind, observation)
        answer = "an example of a plan" if info["phase"] == "reflect" else next(iter(info["legal_actions"]), "")
        tag = tags[info["phase"] == "reflect"]
        observation, _, done, _, info = env.step(f"<{tag}>{answer}</{tag}>" if tag else answer)
    found.pop("play", None)
    return found
