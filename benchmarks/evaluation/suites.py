"""Evaluation panels as data: which meta-episodes are played. A panel is a tuple of tasks, fixed, named and hashed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

import gymnasium as gym
import numpy as np

from mage_envs.core import Task
from mage_envs.games.alfworld import task_ids
from mage_envs.games.webshop.catalogue_maker import goal_ids
from mage_envs.registry import load_game
from opponents import as_pool

EVALUATION = 1000
"""Role of a panel's seeds; the roles of training are smaller, so that no training deal comes back."""


def panel(
    env_id: str, opponents: Sequence[str | None], rows_per_cell: int, seed: int, players: int | None = None
) -> tuple[Task, ...]:
    """`rows_per_cell` tasks for each opponent and each seat of the first hand.

    All cells have the same seeds, hence the same deals: each is played from every seat and against every opponent.
    A longer panel of the same `seed` begins with the same seeds. Opponent None is for games of one player. `players`:
    of the game, where the id's options decide it.
    """
    if rows_per_cell < 1 or not opponents or len(set(opponents)) < len(opponents):
        raise ValueError(
            f"A panel needs at least one row per cell and different opponents, got {rows_per_cell} and {opponents}."
        )
    words = np.random.SeedSequence(seed, spawn_key=(EVALUATION,)).generate_state(rows_per_cell, np.uint64)
    seats = range(players_of(env_id) if players is None else players)
    return tuple(
        Task(env_id, opponent, seat, int(word >> np.uint64(2)))
        for word in words
        for opponent in opponents
        for seat in seats
    )


def players_of(env_id: str) -> int:
    """Players of the game of a `-Meta-v0` id; raises `ValueError` for any other id."""
    try:
        spec = gym.spec(env_id)
    except gym.error.Error as error:
        raise ValueError(f"Unknown environment {env_id!r}: {error}") from error
    if spec.entry_point != "wrappers.make:make_meta_env":
        raise ValueError(f"Environment {env_id!r} is no meta-episode; choose an id that ends with -Meta-v0.")
    return load_game(spec.kwargs["game_name"]).num_players


def fingerprint(tasks: Sequence[Task], env_kwargs: Mapping[str, Any] | None = None) -> str:
    """SHA-256 over the tasks' JSON, and over the environment's options where the panel fixes some."""
    given = [{key: value for key, value in asdict(task).items() if (key, value) != ("task_id", None)} for task in tasks]
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    if env_kwargs:
        text += json.dumps(dict(env_kwargs), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Panel:
    """A named panel."""

    env_id: str
    opponents: Mapping[str, float]
    """Names with their weights in the mean over all; each is played equally often. Empty for games of one player."""
    rows_per_cell: int
    seed: int
    about: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that belong to the panel."""
    task_ids: tuple[str, ...] = ()
    """The game's own ids, one a row; empty where the seeds draw what is played."""

    def tasks(self) -> tuple[Task, ...]:
        rows = panel(self.env_id, tuple(self.opponents) or (None,), self.rows_per_cell, self.seed)
        if not self.task_ids:
            return rows
        return tuple(replace(row, task_id=one) for row, one in zip(rows, self.task_ids, strict=True))

    def fingerprint(self) -> str:
        return fingerprint(self.tasks(), self.env_kwargs)


def weights_of(pool: str) -> dict[str, float]:
    """Names and weights of a registered pool."""
    made = as_pool(pool)
    return {str(entry): weight for entry, weight in zip(made.entries, made.weights, strict=True)}


_KUHN = "mage/KuhnPoker-Meta-v0"
_TICTACTOE = "mage/TicTacToe-Meta-v0"
_SOKOBAN = "mage/Sokoban-Meta-v0"
_ALFWORLD = "mage/ALFWorld-Meta-v0"
_WEBSHOP = "mage/WebShop-Meta-v0"
_WEBSHOP_SPLITS = {
    "val": "families of products that training never shows",
    "test": "further such families",
    "ood_type": "kinds of product that training never shows",
    "ood_phrase": "sentences that training never uses",
    "ood_catalogue": "another catalogue",
}
_HELD_OUT = ("kuhn/rock", "kuhn/maniac", "kuhn/caller", "kuhn/bluffer", "uniform", "cfr")

PANELS: Mapping[str, Panel] = {
    "kuhn-train": Panel(_KUHN, weights_of("pool:kuhn/demo"), 256, 1, "the four soft archetypes that the demo meets"),
    "kuhn-heldout": Panel(_KUHN, dict.fromkeys(_HELD_OUT, 1.0), 256, 2, "six that the demo never meets"),
    "kuhn-paper": Panel(_KUHN, weights_of("pool:kuhn/paper"), 64, 3, "the paper's archetypes, weighted .3/.3/.4"),
    "kuhn-paper-unseen": Panel(
        _KUHN, {"cfr-argmax": 1.0, "cfr": 1.0}, 64, 4, "CFR as the paper plays it, and its average policy"
    ),
    "tictactoe-paper": Panel(
        _TICTACTOE,
        weights_of("pool:tictactoe/balanced"),
        64,
        5,
        "the paper's balanced opponents, weighted as in training",
    ),
    "tictactoe-paper-unseen": Panel(_TICTACTOE, {"mcts:1000": 1.0}, 64, 6, "a search ten times as deep"),
    "sokoban-train": Panel(_SOKOBAN, {}, 256, 7, "2 boxes, as in training", {"boxes": 2}),
    "sokoban-eval-2box": Panel(_SOKOBAN, {}, 128, 8, "2 boxes: in distribution", {"boxes": 2}),
    "sokoban-eval-1box": Panel(_SOKOBAN, {}, 128, 9, "1 box: out of distribution", {"boxes": 1}),
    "sokoban-eval-3box": Panel(_SOKOBAN, {}, 128, 10, "3 boxes: out of distribution", {"boxes": 3}),
    "alfworld-eval-in": Panel(
        _ALFWORLD,
        {},
        144,
        11,
        "every generated in-distribution game; 0 of 144 have a known plan longer than 10 commands",
        {"split": "eval_in_distribution"},
        task_ids("eval_in_distribution", "official-like"),
    ),
    "alfworld-eval-out": Panel(
        _ALFWORLD,
        {},
        144,
        12,
        "every generated out-of-distribution game; 0 of 144 have a known plan longer than 10 commands",
        {"split": "eval_out_of_distribution"},
        task_ids("eval_out_of_distribution", "official-like"),
    ),
    **{
        f"webshop-{split.replace('_', '-')}": Panel(
            _WEBSHOP,
            {},
            128,
            seed,
            about,
            {"split": split},
            tuple(goal_ids(split, 128)),
        )
        for seed, (split, about) in enumerate(_WEBSHOP_SPLITS.items(), start=13)
    },
}
"""The panels of the demo's and the paper's tables, by name."""


def named_panel(name: str) -> Panel:
    """A panel of `PANELS`; raises `ValueError` that suggests the nearest."""
    if name not in PANELS:
        near = get_close_matches(name, PANELS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown panel {name!r}.{hint} mage-bench list names them all: {', '.join(PANELS)}.")
    return PANELS[name]


# -- mage-bench list -------------------------------------------------------------------------------------------

HELP = "name the panels and the kinds of agents"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand has none."""


def run(arguments: argparse.Namespace) -> None:
    """Writes the list to stdout."""
    from benchmarks.evaluation.agents import FORMS

    lines = ["Panels (--panel NAME)"]
    width = max(map(len, PANELS))
    for name, one in PANELS.items():
        tasks = one.tasks()
        lines.append(
            f"  {name:<{width}}  {one.env_id}, {len(tasks)} meta-episodes, {one.fingerprint()[:12]}: {one.about}"
        )
    lines += ["", "Agents (mage-bench eval AGENT)"]
    width = max(map(len, FORMS))
    lines += [f"  {form:<{width}}  {about}" for form, about in FORMS.items()]
    sys.stdout.write("\n".join(lines) + "\n")
