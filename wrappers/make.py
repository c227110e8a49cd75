"""Entry points of `gym.make`: game, opponents, environment and meta-episode. Ids name these functions by string."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mage_envs.core import Game
from mage_envs.env import TextGameEnv
from mage_envs.opponents import PoolSpec, SeatedOpponents
from mage_envs.registry import make_game, settings_of
from mage_envs.settings import GameSettings
from mage_envs.wrappers.meta_episode import MetaEpisode
from mage_envs.wrappers.protocol import Protocol, as_protocol


def make_env(
    game_name: str,
    *,
    opponent: PoolSpec | None = None,
    seat: str | None = None,
    hands_per_episode: int = 1,
    max_turns: int | None = None,
    on_invalid: str = "retry",
    reveal_opponent: bool = False,
    settings: GameSettings | None = None,
    render_mode: str | None = None,
    **game_options: Any,
) -> TextGameEnv:
    """Return `mage/<game>-v0`, an environment of one episode.

    Args:
        game_name: Registered name of the game.
        opponent: Registered name, Policy, pool, or `"module:Class"`. If None, the default opponent of the game.
        seat: Seat rule: `first`, `second`, `alternate` or `fixed`. Default: that of the settings, or `alternate`.
        hands_per_episode: Number of hands per episode.
        max_turns: Maximum number of answers per hand. Default: that of the game.
        on_invalid: Effect of an illegal action: `retry` (it uses a turn) or `forfeit` (it loses the hand).
        reveal_opponent: True if `info` names the opponent from the first step on, not only at the end.
        settings: Settings that replace those of the game.
        render_mode: Gymnasium's render mode.

    Returns:
        The environment.
    """
    game = make_game(game_name, **game_options)
    game_settings = settings or settings_of(game_name, game.spec)
    return _build_env(
        game,
        game_settings,
        opponent,
        seat=seat or game_settings.seat or "alternate",
        hands_per_episode=hands_per_episode,
        max_turns=max_turns,
        on_invalid=on_invalid,
        reveal_opponent=reveal_opponent,
        render_mode=render_mode,
    )


def _build_env(game: Game, settings: GameSettings, opponent: PoolSpec | None, **options: Any) -> TextGameEnv:
    is_default = opponent is None
    # A game for one player has no seat for the default opponent.
    if is_default and game.spec.players > 1:
        opponent = settings.opponent
    return TextGameEnv(game, SeatedOpponents(opponent, game, at_once=not is_default), settings=settings, **options)


META_OPTIONS = (
    "num_episodes",
    "memory",
    "context",
    "style",
    "deal",
    "reward",
    "rules",
    "max_calls",
    "show_score",
    "elicit",
    "elicit_form",
)
"""Options that `make_meta_env` passes to `MetaEpisode` unchanged."""


def make_meta_env(
    game_name: str,
    *,
    opponent: PoolSpec | None = None,
    protocol: str | Protocol = "adaptive",
    seat: str | None = None,
    hands_per_episode: int = 1,
    max_turns: int | None = None,
    on_invalid: str = "retry",
    length_penalty: float | None = None,
    invalid_penalty: float | None = None,
    reveal_opponent: bool = False,
    settings: GameSettings | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> MetaEpisode:
    """Return `mage/<game>-Meta-v0`, an environment of one meta-episode.

    Args:
        game_name: Registered name of the game.
        opponent: Registered name, Policy, pool, or `"module:Class"`. If None, the default opponent of the game.
        protocol: Name of a protocol, or a `Protocol`. It also sets the default of `deal` and `reward`.
        seat: Seat rule. Default: that of the settings, or that of the protocol.
        hands_per_episode: Number of hands per episode.
        max_turns: Maximum number of answers per hand. Default: that of the settings for this protocol, or the game's.
        on_invalid: Effect of an illegal action: `retry` (it uses a turn) or `forfeit` (it loses the hand).
        length_penalty: Coefficient c_len of the length penalty. Default: that of the settings.
        invalid_penalty: Penalty for an invalid answer. Default: that of the settings.
        reveal_opponent: True if `info` names the opponent from the first step on, not only at the end.
        settings: Settings that replace those of the game.
        render_mode: Gymnasium's render mode.
        **options: `META_OPTIONS`, or options of the game.

    Returns:
        The meta-episode.
    """
    terms = as_protocol(protocol)
    # The other options are the game's, so that make_game can refuse an unknown one by name.
    meta_options = {name: options.pop(name) for name in META_OPTIONS if name in options}
    game = make_game(game_name, **options)
    game_settings = settings or settings_of(game_name, game.spec)
    if length_penalty is not None:
        game_settings = replace(game_settings, length_penalty=length_penalty)
    if invalid_penalty is not None:
        game_settings = replace(game_settings, invalid_penalty=invalid_penalty)
    env = _build_env(
        game,
        game_settings,
        opponent,
        seat=seat or game_settings.seat or terms.seat,
        hands_per_episode=hands_per_episode,
        max_turns=max_turns or game_settings.turn_limits.get(terms.turn_limit),
        on_invalid=on_invalid,
        timeout_value=terms.timeout_value,
        reveal_opponent=reveal_opponent,
        render_mode=render_mode,
    )
    return MetaEpisode(env, protocol=protocol, reveal_opponent=reveal_opponent, **meta_options)
