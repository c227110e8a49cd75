"""Metadata of the environment inside a `MetaEpisode`, from the environment itself or from the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from mage_envs.core import BY_THE_RULES, BY_TIMEOUT, GameSpec, HandResult
from mage_envs.loading.options import check_positive
from mage_envs.random.streams import seed_of
from mage_envs.settings import GameSettings, total_reward
from mage_envs.text.prompts import Frame

_TOTAL = {"task": total_reward, "released": total_reward}


@dataclass(frozen=True, kw_only=True)
class EnvMetadata:
    """Facts, settings and limits of an environment."""

    spec: GameSpec
    settings: GameSettings
    hands: int
    """Hands per episode."""
    max_turns: int
    """Maximum number of answers per hand."""
    reset_options: tuple[str, ...]
    """Keys that the environment accepts in `reset(options=...)`."""
    ends_by_itself: bool
    """True if the environment counts answers and reports its hands. Otherwise the meta-episode does both."""
    seats_change: bool | None = None
    """True if the learner's seat changes from hand to hand, None if the environment does not state it."""
    replays: bool = False
    """True if each episode of an environment without the reset option `episode` has the same seed."""

    def reset(
        self, env: gym.Env[Any, Any], seed: int, options: Mapping[str, Any], episode: int, deal: int
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode of the meta-episode with this seed, and return what `env.reset` returns.

        Args:
            seed: Seed of the meta-episode.
            deal: Index of the episode whose deals are dealt.
        """
        if "episode" in self.reset_options:
            return env.reset(seed=seed, options={**options, "episode": episode, "deal": deal})
        # Such an environment knows no deals: the seed alone repeats an episode or makes a new one.
        return env.reset(seed=seed if self.replays else seed_of(seed, episode), options=dict(options) or None)

    def frame(self, num_episodes: int, may_stop_early: bool, replays: bool) -> Frame:
        """Return the constants that prompts state.

        Args:
            num_episodes: Number of episodes of the meta-episode.
            replays: True if each episode repeats the chance of the first one.
        """
        return Frame(
            spec=self.spec,
            num_episodes=num_episodes,
            hands=self.hands,
            max_turns=self.max_turns,
            may_stop_early=may_stop_early,
            replays=replays,
            seats_change=self.seats_change,
        )


def read_env_metadata(
    env: gym.Env[Any, Any], rules: str | None, settings: GameSettings | None, max_turns: int | None, replays: bool
) -> EnvMetadata:
    """Return the metadata of an environment, read through its wrappers.

    An environment of this suite defines `game_spec`, `settings`, `hands_per_episode`, `max_turns`, `reset_options` and
    `seats_change`. If `game_spec` is missing, the environment counts as a task for one player if its deals are
    replayed, otherwise as a game of two players.

    Args:
        env: Environment with text observations and actions.
        rules: Rules shown in prompts. They replace those of the environment, and are required if it has no `game_spec`.
        settings: Prompt and reward settings. Default: those of the environment, or the sum of its rewards.
        max_turns: Maximum number of answers per episode, only for an environment without `game_spec`.
        replays: True if every episode has the same deals.

    Returns:
        The metadata.

    Raises:
        ValueError: If `rules` are missing, or if `max_turns` is set for an environment that has its own limit.
    """
    if env.has_wrapper_attr("game_spec"):
        if max_turns is not None:
            raise ValueError(f"max_turns={max_turns} must be set on the inner environment, {env}, not on MetaEpisode.")
        spec: GameSpec = env.get_wrapper_attr("game_spec")
        limit: int = env.get_wrapper_attr("max_turns")
        hands: int = env.get_wrapper_attr("hands_per_episode")
        env_settings: GameSettings = settings or env.get_wrapper_attr("settings")
        if spec.series:
            # The first turns of an episode show most about the hidden fact, and a window would drop them first.
            episode_turns = limit * hands
            env_settings = replace(
                env_settings, history_window=episode_turns, full_turns=episode_turns, reflect_window=episode_turns
            )
        return EnvMetadata(
            spec=spec if rules is None else replace(spec, rules=rules),
            settings=env_settings,
            hands=hands,
            max_turns=limit,
            reset_options=env.get_wrapper_attr("reset_options"),
            ends_by_itself=True,
            seats_change=env.get_wrapper_attr("seats_change") if env.has_wrapper_attr("seats_change") else None,
            replays=replays or spec.players == 1,
        )
    # An environment from outside this suite: the user describes it, and each of its episodes counts as one hand.
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if not rules:
        raise ValueError(f"{name} does not describe its rules. Pass MetaEpisode(env, rules='...').")
    spec = GameSpec(name=name, rules=rules, players=1 if replays else 2)
    limit = spec.max_turns if max_turns is None else max_turns
    check_positive("max_turns", limit)
    return EnvMetadata(
        spec=spec,
        settings=settings or GameSettings(rewards=_TOTAL),
        hands=1,
        max_turns=limit,
        reset_options=(),
        ends_by_itself=False,
        replays=replays,
    )


def hand_of(observation: str, info: Mapping[str, Any], *, value: float, timeout: bool) -> HandResult:
    """Return the result of an episode as one hand, for an environment that reports no hands.

    Args:
        observation: Last observation of the episode.
        info: Last `info` of the environment. Its optional keys `success` and `seat` are used.
        value: Sum of the episode's rewards.
        timeout: True if the episode was truncated.

    Returns:
        The hand. Its success is None if `info` has no `success`; the sign of `value` then decides.
    """
    success = info.get("success")
    return HandResult(
        value=value,
        seat=info.get("seat", 0),
        ended_by=BY_TIMEOUT if timeout else BY_THE_RULES,
        success=None if success is None else bool(success),
        observation=observation,
        information_state=observation,
    )
