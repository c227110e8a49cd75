"""What a `MetaEpisode` knows of its environment before it plays it: the environment's own word, or the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from mage_envs.checks import check_positive
from mage_envs.core import BY_THE_RULES, BY_TIMEOUT, GameFacts, HandResult
from mage_envs.settings import GameSettings, total_reward

_TOTAL = {"task": total_reward, "released": total_reward}


@dataclass(frozen=True, kw_only=True)
class Described:
    """What is played, how it is prompted and paid."""

    facts: GameFacts
    settings: GameSettings
    hands: int
    """Hands per episode."""
    max_turns: int
    """Answers allowed per hand."""
    reset_options: tuple[str, ...]
    """What the environment's `reset(options=...)` may hold."""
    ends_by_itself: bool
    """Whether the environment counts answers and tells of its hands; else the meta-episode does."""


def describe(
    env: gym.Env[Any, Any], rules: str | None, settings: GameSettings | None, max_turns: int | None, replays: bool
) -> Described:
    """Asks the environment (`facts`, `settings`, `hands_per_episode`, `max_turns`, `reset_options`), through wrappers.

    For one that has no `facts`, `rules` are needed: ValueError without. It counts as a task for one player where its
    episodes are replayed, else as a game against somebody.
    """
    if env.has_wrapper_attr("facts"):
        if max_turns is not None:
            raise ValueError(f"max_turns={max_turns} belongs to the environment inside; give it to {env}.")
        facts: GameFacts = env.get_wrapper_attr("facts")
        return Described(
            facts=facts if rules is None else replace(facts, rules=rules),
            settings=settings or env.get_wrapper_attr("settings"),
            hands=env.get_wrapper_attr("hands_per_episode"),
            max_turns=env.get_wrapper_attr("max_turns"),
            reset_options=env.get_wrapper_attr("reset_options"),
            ends_by_itself=True,
        )
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if not rules:
        raise ValueError(f"{name} does not say what is played in it: give MetaEpisode(env, rules='...').")
    facts = GameFacts(name=name, rules=rules, players=1 if replays else 2)
    limit = facts.max_turns if max_turns is None else max_turns
    check_positive("max_turns", limit)
    return Described(
        facts=facts,
        settings=settings or GameSettings(rewards=_TOTAL),
        hands=1,
        max_turns=limit,
        reset_options=(),
        ends_by_itself=False,
    )


def hand_of(observation: str, info: Mapping[str, Any], *, value: float, timeout: bool) -> HandResult:
    """The one hand of an episode whose environment tells of none; `value` is the sum of its rewards."""
    success = info.get("success")
    return HandResult(
        value=value,
        seat=info.get("seat", 0),
        ended_by=BY_TIMEOUT if timeout else BY_THE_RULES,
        success=None if success is None else bool(success),
        observation=observation,
        information_state=observation,
    )
