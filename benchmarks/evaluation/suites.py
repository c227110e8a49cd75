"""Evaluation panels as data: which meta-episodes are played. A panel is a tuple of tasks, fixed, named and hashed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

from benchmarks.evaluation.environments import seats_of
from mage_envs.core import Task
from mage_envs.randomness import seed_of
from opponents import as_pool

EVALUATION = 1000
"""Role of a panel's seeds; the roles of training are smaller, so that no training deal comes back."""


def panel(
    env_id: str,
    opponents: Sequence[str | None],
    rows_per_cell: int,
    seed: int,
    seats: Sequence[int | None] | None = None,
) -> tuple[Task, ...]:
    """`rows_per_cell` tasks for each opponent and each seat that the learner may take in the first hand.

    All cells have the same seeds, hence the same deals: each is played from every seat and against every opponent.
    A longer panel of the same `seed` begins with the same seeds. Opponent None is for games of one player, whose tasks
    name no seat. `seats`: where the id's options decide them.
    """
    if rows_per_cell < 1 or not opponents or len(set(opponents)) < len(opponents):
        raise ValueError(
            f"A panel needs at least one row per cell and different opponents, got {rows_per_cell} and {opponents}."
        )
    if seats is None:
        seats = seats_of(env_id)
    return tuple(
        Task(env_id=env_id, opponent=opponent, seat=seat, seed=seed_of(seed, EVALUATION, row))
        for row in range(rows_per_cell)
        for opponent in opponents
        for seat in seats
    )


def fingerprint(tasks: Sequence[Task], env_kwargs: Mapping[str, Any] | None = None) -> str:
    """SHA-256 over the tasks' JSON, and over the environment's options where the panel fixes some."""
    given = [{key: value for key, value in asdict(task).items() if (key, value) != ("task_id", None)} for task in tasks]
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    if env_kwargs:
        text += json.dumps(dict(env_kwargs), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A named panel."""

    env_id: str
    about: str
    rows_per_cell: int
    seed: int
    opponents: str | Mapping[str, float] = ""
    """A pool's name, or names with their weights in the mean over all; each opponent is played equally often. Empty
    for games of one player."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that belong to the panel."""
    ids: Callable[[str], Sequence[str]] | None = None
    """Gives the game's own ids of a split, one a row; None where the seeds draw what is played."""

    def weights(self) -> dict[str, float]:
        """The opponents' weights, by name."""
        return weights_of(self.opponents) if self.opponents else {}

    def tasks(self) -> tuple[Task, ...]:
        """What is played."""
        opponents = tuple(self.weights()) or (None,)
        rows = panel(self.env_id, opponents, self.rows_per_cell, self.seed, None if self.opponents else (None,))
        if self.ids is None:
            return rows
        ids = self.ids(self.env_kwargs["split"])
        return tuple(replace(row, task_id=one) for row, one in zip(rows, ids, strict=True))

    def fingerprint(self) -> str:
        """The SHA-256 of the tasks and options."""
        return fingerprint(self.tasks(), self.env_kwargs)


def weights_of(pool: str | Mapping[str, float]) -> dict[str, float]:
    """Names and normalised weights of a pool, or of opponents given with their weights."""
    made = as_pool(pool)
    return {str(entry): weight for entry, weight in zip(made.entries, made.weights, strict=True)}


def _alfworld_ids(split: str) -> Sequence[str]:
    """All generated games of a split; their tables load when the panel is played."""
    from mage_envs.games.alfworld import task_ids

    return task_ids(split, "official-like")


def _webshop_ids(split: str) -> Sequence[str]:
    """128 goals of a split; their tables load when the panel is played."""
    from mage_envs.games.webshop.catalogue_maker import goal_ids

    return goal_ids(split, 128)


def _kuhn(opponents: str | Mapping[str, float], rows: int, seed: int, about: str) -> Panel:
    return Panel(env_id="mage/KuhnPoker-Meta-v0", opponents=opponents, rows_per_cell=rows, seed=seed, about=about)


def _tictactoe(opponents: str | Mapping[str, float], seed: int, about: str) -> Panel:
    return Panel(env_id="mage/TicTacToe-Meta-v0", opponents=opponents, rows_per_cell=64, seed=seed, about=about)


def _repeated(game: str, opponents: str | Mapping[str, float], seed: int, about: str) -> Panel:
    return Panel(env_id=f"mage/{game}-Meta-v0", opponents=opponents, rows_per_cell=128, seed=seed, about=about)


def _sokoban(boxes: int, rows: int, seed: int, about: str) -> Panel:
    told = f"{boxes} {'box' if boxes == 1 else 'boxes'}{about}"
    return Panel(env_id="mage/Sokoban-Meta-v0", rows_per_cell=rows, seed=seed, about=told, env_kwargs={"boxes": boxes})


def _alfworld(split: str, seed: int, which: str) -> Panel:
    return Panel(
        env_id="mage/ALFWorld-Meta-v0",
        rows_per_cell=144,
        seed=seed,
        about=f"every generated {which} game; 0 of 144 have a known plan longer than 10 commands",
        env_kwargs={"split": split},
        ids=_alfworld_ids,
    )


def _webshop(split: str, seed: int, about: str) -> Panel:
    return Panel(
        env_id="mage/WebShop-Meta-v0",
        rows_per_cell=128,
        seed=seed,
        about=about,
        env_kwargs={"split": split},
        ids=_webshop_ids,
    )


def _even(names: str) -> dict[str, float]:
    return dict.fromkeys(names.split(), 1.0)


_HELD_OUT = ("kuhn/rock", "kuhn/maniac", "kuhn/caller", "kuhn/bluffer", "uniform", "cfr")

PANELS: Mapping[str, Panel] = {
    "kuhn-train": _kuhn("pool:kuhn/demo", 256, 1, "the four soft archetypes that the demo meets"),
    "kuhn-heldout": _kuhn(dict.fromkeys(_HELD_OUT, 1.0), 256, 2, "six that the demo never meets"),
    "kuhn-paper": _kuhn("pool:kuhn/paper", 64, 3, "the paper's archetypes, weighted .3/.3/.4"),
    "kuhn-paper-unseen": _kuhn(
        {"cfr-argmax": 1.0, "cfr": 1.0}, 64, 4, "CFR as the paper plays it, and its average policy"
    ),
    "tictactoe-paper": _tictactoe(
        "pool:tictactoe/balanced", 5, "the paper's balanced opponents, weighted as in training"
    ),
    "tictactoe-paper-unseen": _tictactoe({"mcts:1000": 1.0}, 6, "a search ten times as deep"),
    "pd-train": _repeated("PrisonersDilemma", "pool:pd/classic", 18, "five classics, one of them always defecting"),
    "pd-heldout": _repeated("PrisonersDilemma", _even("pd/generous pd/alternate pd/random:.7"), 19, "three others"),
    "ultimatum-train": _repeated("Ultimatum", "pool:ultimatum/reserves", 20, "hidden prices from 1 to 8"),
    "ultimatum-heldout": _repeated(
        "Ultimatum",
        _even("ultimatum/soft-reserve:2 ultimatum/soft-reserve:4 ultimatum/soft-reserve:7"),
        21,
        "prices that are not kept in one case of ten",
    ),
    "rps-train": _repeated("RockPaperScissors", "pool:rps/reactive", 22, "four reactions to the round before"),
    "rps-heldout": _repeated(
        "RockPaperScissors",
        _even("rps/rock rps/paper rps/scissors rps/beat:.7"),
        23,
        "fixed preferences, and a soft reaction",
    ),
    "bargain-train": _repeated("Bargaining", "pool:bargain/four", 24, "four ways to concede"),
    "bargain-heldout": _repeated(
        "Bargaining", _even("bargain/firm uniform"), 25, "one that never does, and one at random"
    ),
    "inspect-train": _repeated("Inspection", "pool:inspect/habits", 26, "attackers with habits, and one at random"),
    "inspect-heldout": _repeated("Inspection", _even("inspect/greedy:.6 inspect/repeat"), 27, "softer habits"),
    "leduc-train": _repeated("LeducPoker", "pool:leduc/four", 28, "four archetypes"),
    "leduc-heldout": _repeated("LeducPoker", "pool:leduc/soft", 29, "the same four, less pure"),
    "liars-train": _repeated("LiarsDice", "pool:liars/four", 30, "four degrees of doubt"),
    "liars-heldout": _repeated("LiarsDice", "pool:liars/soft", 31, "the same four, less pure"),
    "negotiation-train": _repeated("Negotiation", "pool:negotiation/four", 32, "four ways to concede"),
    "negotiation-heldout": _repeated(
        "Negotiation", _even("negotiation/firm uniform"), 33, "one that never does, and one at random"
    ),
    "sokoban-train": _sokoban(2, 256, 7, ", as in training"),
    "sokoban-eval-2box": _sokoban(2, 128, 8, ": in distribution"),
    "sokoban-eval-1box": _sokoban(1, 128, 9, ": out of distribution"),
    "sokoban-eval-3box": _sokoban(3, 128, 10, ": out of distribution"),
    "alfworld-eval-in": _alfworld("eval_in_distribution", 11, "in-distribution"),
    "alfworld-eval-out": _alfworld("eval_out_of_distribution", 12, "out-of-distribution"),
    "webshop-val": _webshop("val", 13, "families of products that training never shows"),
    "webshop-test": _webshop("test", 14, "further such families"),
    "webshop-ood-type": _webshop("ood_type", 15, "kinds of product that training never shows"),
    "webshop-ood-phrase": _webshop("ood_phrase", 16, "sentences that training never uses"),
    "webshop-ood-catalogue": _webshop("ood_catalogue", 17, "another catalogue"),
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
