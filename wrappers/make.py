"""What `gym.make` assembles: game, opponents, environment, meta-episode. Ids name these functions by string."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mage_envs.core import Game
from mage_envs.env import TextGameEnv
from mage_envs.registry import make_game, settings_of
from mage_envs.settings import GameSettings
from opponents import PoolSpec, SeatedOpponents
from wrappers.meta_episode import MetaEpisode
from wrappers.protocol import Protocol, as_protocol


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
    """`mage/<game>-v0`: one episode. `opponent` is a registered name, a Policy, a pool, or `"module:Class"`;
    None seats the game's default. `seat` is by default the settings', else `alternate`. `settings` replace the game's.
    Further keyword arguments are options of the game."""
    chosen = settings or settings_of(game_name)
    return _assembled(
        make_game(game_name, **game_options),
        chosen,
        opponent,
        seat=seat or chosen.seat or "alternate",
        hands_per_episode=hands_per_episode,
        max_turns=max_turns,
        on_invalid=on_invalid,
        reveal_opponent=reveal_opponent,
        render_mode=render_mode,
    )


def _assembled(game: Game, settings: GameSettings, opponent: PoolSpec | None, **options: Any) -> TextGameEnv:
    if opponent is None and game.facts.players > 1:
        opponent = settings.opponent
    return TextGameEnv(game, SeatedOpponents(opponent, game), settings=settings, **options)


META_OPTIONS = ("num_episodes", "memory", "context", "style", "deal", "reward", "max_calls", "show_score")
"""Options of `MetaEpisode` that `make_meta_env` hands on as they are."""


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
    """`mage/<game>-Meta-v0`: a meta-episode. `deal` and `reward` default to the protocol's, limits and penalties to
    the game's settings, `seat` to these and then to the protocol's. Further keyword arguments are `META_OPTIONS` or
    options of the game."""
    terms = as_protocol(protocol)
    chosen = settings or settings_of(game_name)
    if length_penalty is not None:
        chosen = replace(chosen, length_penalty=length_penalty)
    if invalid_penalty is not None:
        chosen = replace(chosen, invalid_penalty=invalid_penalty)
    meta_options = {name: options.pop(name) for name in META_OPTIONS if name in options}
    game = make_game(game_name, **options)
    env = _assembled(
        game,
        chosen,
        opponent,
        seat=seat or chosen.seat or terms.seat,
        hands_per_episode=hands_per_episode,
        max_turns=max_turns or chosen.turn_limits.get(terms.turn_limit),
        on_invalid=on_invalid,
        timeout_value=terms.timeout_value(game.facts),
        reveal_opponent=reveal_opponent,
        render_mode=render_mode,
    )
    return MetaEpisode(env, protocol=protocol, reveal_opponent=reveal_opponent, **meta_options)
