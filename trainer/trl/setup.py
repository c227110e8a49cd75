"""Setup of a run from its settings: environments, opponents, and the settings that a saved model carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, cast

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import Game, NotEnumerable
from mage_envs.loading.imports import load_modules
from mage_envs.opponents import FixedPool, League, Population, PrioritisedPool, as_pool
from mage_envs.registry import ENV, META_ENV, headline
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.method.advantages import CreditConfig
from mage_envs.trainer.method.critic import ExactCritic
from mage_envs.trainer.runs.panel_evaluation import PanelPlayed, panel_played
from mage_envs.tree import positions, roots_of
from mage_envs.wrappers.protocol import ADAPTIVE
from mage_envs.wrappers.rollout.env_pool import RolloutEnvs

ENVIRONMENT: Mapping[str, str] = {
    "num_episodes": "num_episodes",
    "protocol": "protocol",
    "memory": "memory",
    "context": "context",
    "prompt_style": "style",
    "seat": "seat",
    "reward": "reward",
    "opponents": "opponent",
}
"""Fields and the keyword arguments of the Meta id that they set."""
_KEPT = tuple(argument for argument in ENVIRONMENT.values() if argument not in ("seat", "opponent"))
"""Arguments of `MetaEpisode` that a saved model keeps, set or not. The others belong to the game's environment."""

REPLY_WORDS = 16
"""Limit of a reply in a game whose actions are several words."""
CRITIC = 10_000
"""Most positions of a game for which the exact critic is preferred; above, it takes longer than the rollout."""


def env_kwargs(config: RunSettings) -> dict[str, Any]:
    """Return the keyword arguments of the Meta id that were set. The id has defaults for the others."""
    arguments = {
        argument: vars(config)[name] for name, argument in ENVIRONMENT.items() if vars(config)[name] is not None
    }
    return arguments | cast("dict[str, Any]", config.env_kwargs or {})


def env_maker(config: RunSettings) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes one environment of the run. Modules in `config.imports` are imported now."""
    load_modules(config.imports, "imports")
    kwargs = env_kwargs(config)
    # A partial, not a lambda: it is sent to worker processes.
    return partial(gym.make, config.env_id, disable_env_checker=True, **kwargs)


def is_own(env_id: str) -> bool:
    """Return True if an id is of a registered game, and not of an environment of another project."""
    return gym.spec(env_id).entry_point in (ENV, META_ENV)


def pool_weights(config: RunSettings) -> Mapping[str, float] | None:
    """Return the names and weights of the training opponents, or None if the task has no opponents."""
    env = env_maker(config)()
    players = env.get_wrapper_attr("game_spec").players if env.has_wrapper_attr("game_spec") else 1
    if players == 1:
        return None
    default = env.get_wrapper_attr("settings").opponent
    pool = as_pool(default if config.opponents is None else config.opponents)
    return {str(entry): weight for entry, weight in zip(pool.entries, pool.weights, strict=True)}


def make_population(config: RunSettings) -> Population | None:
    """Return the training opponents as `config.population` adapts them, or None if the task has no opponents."""
    pool = pool_weights(config)
    if pool is None:
        if config.population != "fixed":
            raise ValueError(
                f"population={config.population} requires opponents; {config.env_id} has none. Use population=fixed."
            )
        return None
    if config.population == "prioritised":
        return PrioritisedPool(pool, config.pfsp_curve)
    if config.population == "league":
        return League(pool, config.league_every, share=config.league_share, curve=config.pfsp_curve)
    return FixedPool(pool)


def credit_of(env: gym.Env[Any, Any], config: RunSettings) -> CreditConfig:
    """Return how the environment's rewards become advantages: by its protocol, or by `adaptive` if it has none."""
    protocol = env.get_wrapper_attr("protocol") if env.has_wrapper_attr("protocol") else ADAPTIVE
    hands = env.get_wrapper_attr("hands_per_episode") if env.has_wrapper_attr("hands_per_episode") else 1
    return config.credit_config(protocol, hands)


def critic_of(env: gym.Env[Any, Any], config: RunSettings, opponents: Iterable[str]) -> ExactCritic | None:
    """Return the exact critic if `config.advantage` is "exact", else None.

    Args:
        opponents: Names of the training opponents.

    Raises:
        ValueError: If the critic cannot judge the game or one of the opponents.
    """
    if config.advantage != "exact":
        return None
    critic = ExactCritic.of(env)
    for opponent in opponents:
        # Refuses an opponent without exact probabilities now, not in the first rollout.
        critic.hand(opponent, 0)
    return critic


def exact_critic_settings(config: RunSettings) -> dict[str, str]:
    """Return the fields that select the exact critic, or nothing if the game is large or an opponent not exact."""
    env = env_maker(config)()
    if not env.has_wrapper_attr("game"):
        return {}
    chosen = {"advantage": "exact", "statistics": "pooled"}
    exact = copy(config)
    vars(exact).update(chosen)
    try:
        small = len(positions([node for _, node in roots_of(env.get_wrapper_attr("game"))])) <= CRITIC
        return chosen if small and critic_of(env, exact, pool_weights(config) or ()) is not None else {}
    except (NotEnumerable, ValueError):
        # A large game, an opponent without exact probabilities, or a reward that is not a sum over the hands.
        return {}


def words_limit(config: RunSettings) -> dict[str, int]:
    """Return the field that limits a reply of the model `words`, if the game's actions are several words."""
    env = env_maker(config)()
    if not env.has_wrapper_attr("game"):
        return {}
    spec = env.get_wrapper_attr("game").spec
    return {"max_completion_length": REPLY_WORDS} if spec.observation_words is not None else {}


def find_contradiction(env: gym.Env[Any, Any], config: RunSettings) -> str | None:
    """Return the first field that contradicts `env`, which was made without the config, or None."""
    settings = play_settings(env, config)
    env_arguments = {} if settings is None else {"env_id": settings.env_id, **settings.env_kwargs}
    id_argument = {"env_id": config.env_id} if config.env_id != RunSettings.env_id else {}
    for argument, value in {**id_argument, **env_kwargs(config)}.items():
        if env_arguments.get(argument) != value:
            return next((name for name, known_argument in ENVIRONMENT.items() if known_argument == argument), argument)
    return None


def play_settings(env: gym.Env[Any, Any], config: RunSettings) -> PlaySettings | None:
    """Return how to prompt a model that was trained in `env`, or None if `gym.make` did not make `env`.

    The trainer adds the prompt format, which needs the model's tokenizer.
    """
    if env.spec is None:
        return None
    # The environment's own arguments, not the config's: `make_env` may have set others.
    meta = next((w.kwargs for w in env.spec.additional_wrappers if w.name == "MetaEpisode"), None) or {}
    kwargs = {name: meta[name] for name in _KEPT if name in meta} | env.spec.kwargs
    return PlaySettings(
        env_id=env.spec.id,
        env_kwargs={name: value for name, value in kwargs.items() if name not in ("opponent", "game_name")},
        max_new_tokens=int(config.max_completion_length or 1),
        temperature=config.temperature,
        constrained=config.constrained,
        imports=tuple(config.imports),
    )


def call_limits(config: RunSettings) -> dict[str, int]:
    """Return the most turns and reflections of an episode, as far as the environment knows, and the episodes."""
    env = env_maker(config)()
    if not env.has_wrapper_attr("env_metadata"):
        return {"turns": 1, "reflections": 0, "num_episodes": 1}
    described, settings = env.get_wrapper_attr("env_metadata"), play_settings(env, config)
    memory = None if settings is None else settings.env_kwargs.get("memory")
    return {
        "turns": described.hands * (described.max_turns or 1),
        "reflections": int(memory in ("reflection", "both")),
        "num_episodes": env.get_wrapper_attr("num_episodes"),
    }


def panel_evaluation(env: gym.Env[Any, Any], config: RunSettings) -> PanelPlayed | None:
    """Return the evaluation panel of a training run in `env`, or None without `eval_panel`."""
    if config.eval_panel is None or not config.eval_every:
        return None
    settings = play_settings(env, config)
    if settings is None:
        raise ValueError("eval_panel requires an environment with an id; make_env must use gym.make.")
    return panel_played(config.eval_panel, settings.env_id, settings.env_kwargs)


def make_control_envs(panel: PanelPlayed, config: RunSettings) -> RolloutEnvs | None:
    """Return the environments of a panel without memory, or None if evaluations are not played without it."""
    if not config.eval_memory_every or panel.options.get("memory") == "none":
        return None
    make_env = partial(gym.make, panel.env_id, disable_env_checker=True, **{**panel.options, "memory": "none"})
    if make_env().get_wrapper_attr("num_episodes") < 2:
        return None
    return RolloutEnvs(make_env, config.env_workers, config.env_memory_gb)


def measure_of(env: gym.Env[Any, Any]) -> str:
    """Return the headline measure of an environment's game: `success`, or `value` per hand."""
    game = env.get_wrapper_attr("game") if env.has_wrapper_attr("game") else None
    return "value" if isinstance(game, Game) and headline(game) == "returns" else "success"


def prompt_settings(config: RunSettings) -> dict[str, Any]:
    """Return the limits, penalties and windows that follow from the game's settings, the protocol and the options."""
    env = env_maker(config)()
    if not env.has_wrapper_attr("env_metadata"):
        return {}
    described = env.get_wrapper_attr("env_metadata")
    names = ("length_penalty", "invalid_penalty", "history_window", "full_turns", "reflect_window")
    return {"max_turns": described.max_turns} | {name: vars(described.settings)[name] for name in names}


def sample_prompts(config: RunSettings) -> dict[str, str]:
    """Return one full prompt of each kind, as the run's model will see it (seed 0, a scripted learner)."""
    env = env_maker(config)()
    observation, info = env.reset(seed=0)
    prompts = {"first play": observation}
    terminated = False
    while not terminated:
        reflects = info["phase"] == "reflect"
        if reflects:
            kind = info["kind"]
        else:
            kind = "later play" if info["episode_index"] else "play"
        prompts.setdefault(kind, observation)
        answer = "an example of a plan" if reflects else next(iter(info["legal_actions"]), "")
        tag = info["answer_tag"]
        observation, _, terminated, _, info = env.step(f"<{tag}>{answer}</{tag}>" if tag else answer)
    # Further prompts of the first episode differ from "first play" by their turns only.
    prompts.pop("play", None)
    return prompts
