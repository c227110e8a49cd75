"""Registration of games of related tasks: their ids, and their hidden facts as opponents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mage_envs.core import Game, Turn
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import Builder, load_all_opponents, load_opponents, register_opponent
from mage_envs.opponents.tabular import RulePolicy
from mage_envs.registry import register_game
from mage_envs.related import Related
from mage_envs.settings import GameSettings, success_reward

ALL, TRAIN, EVALUATION = "all", "train", "eval"
"""Names of the pools after the slash: every fact, those of training, and those held out for evaluation."""
SETTINGS = GameSettings(rewards={"task": success_reward, "released": success_reward})
"""Default settings of a game of related tasks, which is won or lost."""


@dataclass(frozen=True, kw_only=True)
class TaskSeries:
    """The evaluation panel of a game of related tasks: `<prefix>-related`."""

    game: str
    about: str
    pool: str
    """Name of the pool whose facts the panel contains."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the game that choose the tasks of evaluation."""


_SERIES: dict[str, TaskSeries] = {}


def state_fact(fact: str, turn: Turn) -> Mapping[str, float]:
    """Return the move of a fact: it states itself. In the learner's seat it plays at random, until a hand ends."""
    if turn.player == 1:
        return {fact: 1.0}
    # Not one fixed action: with the first one of each page, a visit to a shop would never end.
    return dict.fromkeys(turn.legal_actions, 1 / len(turn.legal_actions))


def fact_policy(game: Game, fact: str) -> RulePolicy:
    """Return the second player that states this fact. Raises ValueError if the game does not know it."""
    if isinstance(game, Related):
        # `describe` raises for an unknown fact, so a misspelt one fails before anything is played.
        game.describe(fact)
    return RulePolicy(partial(state_fact, fact))


def register_facts(
    game: str,
    prefix: str,
    facts: Mapping[str, float],
    *,
    held_out: Mapping[str, float] | None = None,
    policy: Builder = fact_policy,
    about: str = "",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Register the hidden facts of a game as opponents `prefix:FACT`, with their pools and the panel of evaluation.

    The pools are `prefix/all`, and `prefix/train` and `prefix/eval` if facts are held out. The panel
    `prefix-related` has the facts of `prefix/eval` if it exists, else all.

    Args:
        game: Registered name of the game.
        prefix: First part of the names of opponents, pools and panel.
        held_out: Those of the facts that no training may meet, with their weights.
        policy: Function of the game and a fact that returns the second player (default: it states the fact).
        options: Options of the game that choose the tasks of evaluation.

    Raises:
        ValueError: If a fact that is held out is not among the facts, or if a name is taken.
    """
    evaluation_facts = dict(held_out or {})
    if unknown := sorted(evaluation_facts.keys() - facts.keys()):
        raise ValueError(f"{game}: held_out={unknown} are not among the facts.")
    register_opponent(prefix, games=[game], needs_game=True, form=f"{prefix}:fact")(policy)
    pools = {ALL: facts}
    if evaluation_facts:
        pools |= {
            TRAIN: {fact: weight for fact, weight in facts.items() if fact not in evaluation_facts},
            EVALUATION: evaluation_facts,
        }
    for part, pool_facts in pools.items():
        register_pool(f"{prefix}/{part}", {f"{prefix}:{fact}": weight for fact, weight in pool_facts.items()})
    _SERIES[prefix] = TaskSeries(
        game=game,
        about=about or f"related tasks of {game}, with one hidden fact",
        pool=f"{prefix}/{EVALUATION if evaluation_facts else ALL}",
        options=options or {},
    )


def register_related(
    name: str,
    entry_point: str | type[Game],
    *,
    facts: Mapping[str, float],
    prefix: str,
    references: Mapping[str, str] | None = None,
    settings: GameSettings = SETTINGS,
    held_out: Mapping[str, float] | None = None,
    options: Mapping[str, Any] | None = None,
    about: str = "",
) -> None:
    """Register a game of related tasks: its ids, its facts as opponents, their pools and the panel of evaluation.

    Args:
        name: Name of the game in its ids.
        entry_point: `"module:Class"` or the class, a `Related`.
        facts: Values of the hidden fact with their weights.
        prefix: First part of the names of opponents (`prefix:FACT`), pools (`prefix/all`) and panel
            (`prefix-related-512`).
        references: Reference rows of evaluation tables: label to agent.
        settings: Further settings of prompts and training.
        held_out: Those of the facts that no training may meet, with their weights.
        options: Options of the game that choose the tasks of evaluation, as in `{"split": "eval"}`.

    Raises:
        ValueError: If the rules show the fact (`perfect_information`), if they are no series, or if a name is taken.
    """
    if isinstance(entry_point, type):
        spec = entry_point.spec
        if not spec.series or spec.players != 2 or spec.perfect_information:
            raise ValueError(
                f"{name}: the spec of related tasks needs series=True, players=2 and perfect_information=False. "
                "Otherwise info['history'] would show the fact."
            )
    game_settings = replace(settings, opponent=f"pool:{prefix}/{ALL}", seat="first", references=references or {})
    register_game(name, entry_point, settings=game_settings)
    register_facts(name, prefix, facts, held_out=held_out, about=about, options=options)


def find_series(prefix: str) -> TaskSeries | None:
    """Return the panel of evaluation of a prefix, or None."""
    load_opponents(prefix)
    if prefix not in _SERIES:
        load_all_opponents()
    return _SERIES.get(prefix)


def list_series() -> dict[str, TaskSeries]:
    """Return the panels of evaluation by prefix, sorted."""
    load_all_opponents()
    return dict(sorted(_SERIES.items()))
