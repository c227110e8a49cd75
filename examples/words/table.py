"""Text of the results of each game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.tables import TextTable


@dataclass(frozen=True, kw_only=True)
class Learned:
    """Result of one game's run. Estimates are `Estimate`s by episode, as JSON values, in `unit`."""

    game: str
    pool: str
    unit: str
    command: str
    """Command of `mage train` that does the same run."""
    parameters: int
    advantage: str
    rollouts: int
    meta_episodes: int
    """Number of meta-episodes per rollout."""
    cpu_seconds: float
    """CPU seconds of the training."""
    curve: Sequence[Sequence[float]]
    """Mean returns by rollout and episode."""
    first: Sequence[Mapping[str, Any]]
    """Estimates of the first rollout, which is played with random weights."""
    last: Sequence[Mapping[str, Any]]
    """Estimates of the last ten rollouts."""
    model: Sequence[Mapping[str, Any]]
    """Estimates of the saved model on fresh deals."""
    exact: Mapping[str, Any]
    """Exact values, from `Headroom.to_json`."""


NOTES = (
    "Values are per hand, of which an episode has one. first rollout: random weights; last rollouts: as sampled in",
    "training; saved model: what the run leaves, on fresh deals, without the luck of cards and replies where values",
    "are not wins (mage regret). blind, best learner, knows the opponent: exact (docs/headroom.md). ±: half a 95%",
    "interval, groups or deals being clusters. The exact critic is part of the training alone: no prompt shows",
    "anything of it.",
)


def table(results: Sequence[Learned]) -> str:
    """Return the blocks of all games, followed by notes on the figures."""
    return "\n\n".join(["\n".join(_block(result)) for result in results] + ["\n".join(NOTES)]) + "\n"


def _block(result: Learned) -> list[str]:
    episodes = len(result.model)
    solved = result.exact["per_episode"]
    # The exact values of blind and known play are the same in every episode.
    rows = [
        ["first rollout", *map(_cell, result.first)],
        [f"last {min(10, result.rollouts)} rollouts", *map(_cell, result.last)],
        ["saved model", *map(_cell, result.model)],
        ["blind", *[number(result.exact["blind"])] * episodes],
        ["best learner", *map(number, solved["sum"])],
        [f"best learner, differential, gt {result.exact['gt']:g}", *map(number, solved["mage"])],
        ["knows the opponent", *[number(result.exact["known"])] * episodes],
    ]
    return [
        f"{result.game} against {result.pool}, in {result.unit}",
        result.command,
        f"{result.rollouts} rollouts of {result.meta_episodes} meta-episodes, {result.parameters:,} parameters, "
        f"{result.cpu_seconds:.0f} CPU s; advantage: {result.advantage}",
        str(TextTable(["", *(f"episode {k}" for k in range(1, episodes + 1))], rows)),
    ]


def _cell(estimate: Mapping[str, Any]) -> str:
    # An estimate from one observation has no interval.
    if estimate["low"] is None or estimate["high"] is None:
        return number(estimate["mean"])
    return f"{number(estimate['mean'])} ± {(estimate['high'] - estimate['low']) / 2:.3f}"
