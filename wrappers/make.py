"""The composition root: assembles game, opponents and wrappers. Gymnasium calls it by name; nothing imports it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import Policy, RemembersMetaEpisode, SeesResults, StatePolicy, TextGame
from mage_envs.env import Seated, TextGameEnv
from mage_envs.games.table import TableGame
from mage_envs.randomness import Uniforms
from mage_envs.registry import make_game
from mage_envs.replies import Replies, table_of
from mage_envs.table_env import TableEnv
from mage_envs.text.prompts import PromptStyle
from opponents import DeclaresDeterminism, Entry, PoolSpec, as_pool, make_opponent
from wrappers import MemoryStrategy, MetaEpisode, Protocol, as_protocol


class SeatedOpponents:
    """Builds the opponents of one environment, once per entry of its pool, and draws among them."""

    def __init__(self, spec: PoolSpec | None, game: TextGame) -> None:
        """`game` must not be the one that is played: whoever needs a game to be built may keep it."""
        if game.num_players == 1 and spec is not None:
            raise ValueError(f"{game.name} has one player: opponent={spec!r} has no seat to take.")
        self._game = game
        self._by_name: dict[str, Seated] = {}
        self._pool = as_pool(game.default_opponent if spec is None else spec) if game.num_players > 1 else None
        self._entries = {id(entry): self._seat(entry) for entry in self._pool.entries} if self._pool else {}
        alone = [Seated("", (), draws=False)] if self._pool is None else list(self._entries.values())
        self._single = alone[0] if len(alone) == 1 else None

    def _seat(self, entry: Entry) -> Seated:
        others = self._game.num_players - 1
        if others > 1 and not isinstance(entry, str):
            raise ValueError(f"{self._game.name} has {others} other seats: name an opponent, an instance takes one.")
        policies = tuple(make_opponent(entry, self._game) for _ in range(others))
        seated = Seated(
            entry if isinstance(entry, str) else type(entry).__name__,
            policies,
            draws=not all(isinstance(policy, DeclaresDeterminism) and policy.deterministic for policy in policies),
            replies=self._replies(entry, policies[0]) if others == 1 else None,
            watching=tuple((place, policy) for place, policy in enumerate(policies) if isinstance(policy, SeesResults)),
            remembering=tuple(policy for policy in policies if isinstance(policy, RemembersMetaEpisode)),
        )
        self._by_name[seated.name] = seated
        return seated

    def _replies(self, entry: Entry, policy: Policy) -> Replies | None:
        """A registered name without arguments stands for one function, so that all environments share its table."""
        if not isinstance(policy, StatePolicy):
            return None
        if isinstance(entry, str) and ":" not in entry and isinstance(self._game, TableGame):
            return Replies(policy, table_of(entry, tuple(node for _, node in self._game.roots())))
        return Replies(policy)

    def named(self, name: str) -> Seated:
        return self._by_name.get(name) or self._seat(name)

    def draw(self, rng: Uniforms | np.random.Generator) -> Seated:
        if self._single is not None:
            return self._single
        assert self._pool is not None
        return self._entries[id(self._pool.draw(rng))]

    def mixture(self) -> tuple[Seated, ...]:
        """All that `draw` may return, in the order in which a rising draw meets them."""
        return tuple(self._entries[id(entry)] for entry in self._pool.entries) if self._pool else ()


def make_env(
    game_name: str,
    *,
    opponent: PoolSpec | None = None,
    seat: str = "alternate",
    hands_per_episode: int = 1,
    max_turns: int | None = None,
    on_invalid: str = "retry",
    render_mode: str | None = None,
    **game_options: Any,
) -> TextGameEnv:
    """`mage/<game>-v0`: one episode. `opponent` is a registered name, a Policy, a pool, or `"module:Class"`;
    None seats the game's default. Further keyword arguments are the game's own options."""
    rules = make_game(game_name, **game_options)
    opponents = SeatedOpponents(opponent, make_game(game_name, **game_options))
    options: dict[str, Any] = {
        "seat": seat,
        "hands_per_episode": hands_per_episode,
        "max_turns": max_turns,
        "on_invalid": on_invalid,
        "render_mode": render_mode,
    }
    if isinstance(rules, TableGame) and hands_per_episode == 1 and TableEnv.suits(rules) and render_mode != "human":
        return TableEnv(rules, opponents, **options)
    return TextGameEnv(rules, opponents, **options)


def make_meta_env(
    game_name: str,
    *,
    opponent: PoolSpec | None = None,
    num_episodes: int = 3,
    protocol: str | Protocol = "adaptive",
    memory: str | MemoryStrategy = "reflection",
    context: str = "rebuilt",
    style: str | PromptStyle = "prose",
    seat: str | None = None,
    deal: str | None = None,
    reward: str | None = None,
    hands_per_episode: int = 1,
    max_turns: int | None = None,
    on_invalid: str = "retry",
    length_penalty: float | None = None,
    invalid_penalty: float | None = None,
    reveal_opponent: bool = False,
    render_mode: str | None = None,
    **game_options: Any,
) -> MetaEpisode:
    """`mage/<game>-Meta-v0`: a meta-episode. `seat`, `deal` and `reward` default to the protocol's."""
    rules = make_game(game_name, **game_options)
    opponents = SeatedOpponents(opponent, make_game(game_name, **game_options))
    terms = as_protocol(protocol)
    env = TextGameEnv(
        rules,
        opponents,
        seat=seat or terms.seat,
        hands_per_episode=hands_per_episode,
        max_turns=terms.max_turns(rules) if max_turns is None else max_turns,
        on_invalid=on_invalid,
        timeout_value=terms.timeout_value(rules),
        render_mode=render_mode,
    )
    return MetaEpisode(
        env,
        num_episodes=num_episodes,
        protocol=protocol,
        memory=memory,
        context=context,
        style=style,
        deal=deal,
        reward=reward,
        length_penalty=length_penalty,
        invalid_penalty=invalid_penalty,
        reveal_opponent=reveal_opponent,
    )
