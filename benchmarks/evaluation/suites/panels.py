"""Panels as data. A panel is a named and fixed tuple of tasks.

Every panel has a size of 512 (the default: `kuhn-paper` is `kuhn-paper-512`) and one of 128, which is a prefix of the
larger one. Each opponent is met equally often from each seat, so the number of meta-episodes is rounded up to a whole
number of rows. If the data hold fewer tasks, the panel contains all of them. The panels `paper-...` copy the paper's
released evaluation: 128 tasks, one seat, and K = 10 under the protocol `paper` unless the user sets other options.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.environments import seats_of
from mage_envs.benchmarks.evaluation.suites.released import RELEASED
from mage_envs.core import Task
from mage_envs.game_record import RECORDS
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import load_entry
from mage_envs.opponents import as_pool
from mage_envs.opponents.related import TaskSeries, find_series, list_series
from mage_envs.opponents.splits import Split, find_split, list_splits
from mage_envs.random.streams import seed_of
from mage_envs.registry import explain_unavailable, list_games, load_game
from mage_envs.wrappers import MetaEpisode

if TYPE_CHECKING:
    from mage_envs.benchmarks.evaluation.suites.adapt import AdaptCell

EVALUATION = 1000
"""Role of a panel's seeds. The roles of training are smaller numbers, so no training deal occurs in a panel."""
Size = Literal[512, 128]
SIZES: tuple[Size, ...] = get_args(Size)
"""Minimum numbers of meta-episodes, the default first."""
MAX_META_EPISODES = 10**6
"""Maximum number of meta-episodes of a panel."""
RELATED = "related"
"""Last word in the name of a panel of related tasks."""
QUICK = 16
"""Size of a trial run, a prefix of the size of 128. Its scores are not results."""


def panel(
    env_id: str,
    opponents: Sequence[str | None],
    rows_per_cell: int,
    seed: int,
    seats: Sequence[int | None] | None = None,
    rotations: int = 1,
    own_seeds: bool = False,
) -> tuple[Task, ...]:
    """Return `rows_per_cell` tasks for each pair of an opponent and a first seat of the learner.

    All cells have the same seeds and therefore the same deals, from every seat and against every opponent. A longer
    panel of the same `seed` begins with the same seeds.

    In a series, the K tasks of a seed are played in K rotations, so that every episode has the same tasks and a gain
    is no difference in difficulty. The rows are then rounded up to whole sets of rotations.

    Args:
        opponents: Names of the opponents; (None,) for games of one player, whose tasks name no seat.
        rows_per_cell: Tasks per opponent and seat.
        seed: Seed of the panel, at least 0.
        seats: First seats of the learner (default: those of the id's options).
        rotations: Number of rotations K of each seed; 1 if episodes are no series.
        own_seeds: True for another seed, and therefore other deals, in each cell.

    Raises:
        ValueError: If rows or opponents are missing, an opponent occurs twice, or the panel is too large.
    """
    if rows_per_cell < 1 or not opponents or len(set(opponents)) < len(opponents):
        raise ValueError(
            f"A panel requires at least one row per cell and different opponents, got {rows_per_cell} and {opponents}."
        )
    if seed < 0:
        raise ValueError(f"seed={seed} must not be negative.")
    if seats is None:
        seats = seats_of(env_id)
    sets = -(-rows_per_cell // rotations)
    if (count := sets * rotations * len(opponents) * len(seats)) > MAX_META_EPISODES:
        raise ValueError(f"A panel must have at most {MAX_META_EPISODES:,} meta-episodes, got {count:,}.")
    cells = [(opponent, seat) for opponent in opponents for seat in seats]
    return tuple(
        Task(
            env_id=env_id,
            opponent=opponent,
            seat=seat,
            seed=seed_of(seed, EVALUATION, row, *([number] if own_seeds else [])),
            rotation=rotation,
        )
        for row in range(sets)
        for rotation in range(rotations)
        for number, (opponent, seat) in enumerate(cells)
    )


TaskIds = Callable[[Mapping[str, Any], int], Sequence[str]]
"""Function of the environment's options and a size. It returns at most that many task ids; a smaller size is a
prefix."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A set of tasks."""

    env_id: str
    about: str
    seed: int
    size: int = SIZES[0]
    """Minimum number of meta-episodes."""
    rows_per_cell: int | None = None
    """Rows for each opponent and first seat; None for as many as `size` requires."""
    opponents: str | Mapping[str, float] = ""
    """Name of a pool, or names with their weights in the overall mean. Each opponent is played equally often. Empty for
    games of one player."""
    seats: Sequence[int] = (0, 1)
    """Possible first seats of the learner; ignored in games of one player."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that belong to the panel."""
    ids: TaskIds | None = None
    """Function that returns the game's own task ids, one per row; None if the seeds draw the tasks."""
    sizes: Sequence[int] = SIZES
    """Sizes that have a name, the default first."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment that the panel sets if the user does not."""
    by_weight: bool = False
    """True if the number of tasks of an opponent follows its weight. Each task then has a seed of its own."""
    rows: tuple[Task, ...] | None = None
    """The tasks themselves, if a loop chose them; None if the panel makes them."""
    variable: str = ""
    """Environment variable with the folder of the data; empty if the data are generated."""
    stand_in: str = ""
    """Panel of generated data for trials on machines without the folder."""

    def missing(self) -> str | None:
        """Return the reason why the data are not on this machine, or None."""
        return f"{self.variable} is not set" if self.variable and not os.environ.get(self.variable) else None

    def obstacle(self) -> str:
        """Return the reason why the game cannot be made here, such as a missing engine, or an empty text."""
        game: str = gym.spec(self.env_id).kwargs.get("game_name", "")
        return explain_unavailable(game) if game in list_games() else ""

    def default_options(self) -> dict[str, Any]:
        """Return the options that apply if the user sets none of these names, with the folder of the data."""
        folder = os.environ.get(self.variable) if self.variable and "data" not in self.env_kwargs else None
        return {**self.defaults, **({"data": folder} if folder else {})}

    def filter_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a saved model that the panel does not set. A model keeps its own style of prompts."""
        set_here = {*self.env_kwargs, *self.default_options()} - {"style"}
        return {key: value for key, value in options.items() if key not in set_here}

    own_seeds: bool = False
    """True if every meta-episode has its own seed. Otherwise all opponents and seats of a row share the deals."""

    def weights(self) -> dict[str, float]:
        """Return the weight of each opponent."""
        return weights_of(self.opponents) if self.opponents else {}

    def tasks(self, env_kwargs: Mapping[str, Any] | None = None) -> tuple[Task, ...]:
        """Return the tasks. `env_kwargs` locates data that are not generated."""
        if self.rows is not None:
            return self.rows
        opponents = tuple(self.weights()) or (None,)
        seats: Sequence[int | None] = self.seats if self.opponents else (None,)
        rows = self.rows_per_cell or -(-self.size // (len(opponents) * len(seats)))
        if (reason := self.missing()) and "data" not in (env_kwargs or {}):
            raise ValueError(f"This panel requires the original data, but {reason}. Set it to their folder.")
        if self.by_weight:
            tasks = panel(self.env_id, (None,), self.size, self.seed, self.seats)
            return tuple(
                replace(task, opponent=name)
                for task, name in zip(tasks, apportion(self.weights(), self.size), strict=True)
            )
        if self.ids is None:
            # Rotations share a seed; with own seeds the order of a series is drawn for each meta-episode.
            rotations = 1 if self.own_seeds else _rotations(self.env_id, {**self.env_kwargs, **(env_kwargs or {})})
            return panel(self.env_id, opponents, rows, self.seed, seats, rotations, self.own_seeds)
        # The ids depend on the size, so a trial takes the first ones of the smallest real size.
        ids = self.ids({**self.env_kwargs, **(env_kwargs or {})}, max(self.size, min(SIZES)))[: self.size]
        tasks = panel(self.env_id, opponents, len(ids), self.seed, seats)
        return tuple(replace(task, task_id=task_id) for task, task_id in zip(tasks, ids, strict=True))


def _rotations(env_id: str, options: Mapping[str, Any]) -> int:
    """Return the number of episodes if they are a series of related tasks, else 1."""
    game: str = gym.spec(env_id).kwargs.get("game_name", "")
    if game not in list_games() or not load_game(game).spec.series:
        return 1
    count: int = options.get("num_episodes", inspect.signature(MetaEpisode).parameters["num_episodes"].default)
    return count


def apportion(weights: Mapping[str, float], count: int) -> list[str]:
    """Return `count` names, so that the share of each name in every prefix is as near to its weight as possible."""
    names: list[str] = []
    for position in range(1, count + 1):
        # max returns the first of equal values, so that the order does not depend on anything else.
        names.append(max(weights, key=lambda name: round(weights[name] * position - names.count(name), 9)))
    return names


def weights_of(opponents: str | Mapping[str, float]) -> dict[str, float]:
    """Return the names and normalised weights of a pool, or of opponents with their weights."""
    pool = as_pool(opponents)
    return {str(entry): weight for entry, weight in zip(pool.entries, pool.weights, strict=True)}


def _opponents_panel(
    game: str, opponents: str | Mapping[str, float], seed: int, about: str, seats: Sequence[int] = (0,)
) -> Panel:
    """Return the panel of a game with opponents."""
    return Panel(env_id=f"mage/{game}-Meta-v0", opponents=opponents, seed=seed, about=about, seats=seats)


def _split_panels(prefix: str, split: Split) -> dict[str, Panel]:
    """Return the two panels of a split of a game's opponents by their names."""
    panel_of = partial(_opponents_panel, split.game, seats=split.seats)
    return {
        f"{prefix}-train": panel_of(split.train, split.seed, split.train_about),
        f"{prefix}-heldout": panel_of(split.heldout, split.seed + 1, split.heldout_about),
    }


def _series_panel(prefix: str, series: TaskSeries) -> Panel:
    """Return the panel of evaluation of a game of related tasks."""
    return Panel(
        env_id=f"mage/{series.game}-Meta-v0",
        opponents=f"pool:{series.pool}",
        # The seed follows from the name, so that no package has to know which seeds others use.
        seed=seed_of(*prefix.encode()),
        about=series.about,
        seats=(0,),
        env_kwargs=series.options,
    )


def _panel_of(game: str, fields: Mapping[str, Any]) -> Panel:
    """Return a panel of a game from the fields of its record."""
    ids = fields.get("ids")
    # Imported when the ids are needed, because the modules of some games are large.
    task_ids = _NamedIds(ids) if isinstance(ids, str) else ids
    # A game with roles has its learner in one seat.
    seat: Any = getattr(RECORDS[game].settings, "seat", None)
    seats = {"first": {"seats": (0,)}, "second": {"seats": (1,)}}.get(seat, {}) if fields.get("opponents") else {}
    return Panel(**{"env_id": f"mage/{game}-Meta-v0", **seats, **fields, "ids": task_ids})


@dataclass(frozen=True)
class _NamedIds:
    """Function of task ids by its `module:function`. Two of one name are equal."""

    name: str

    def __call__(self, options: Mapping[str, Any], size: int) -> Sequence[str]:
        ids: Sequence[str] = load_entry(self.name)(options, size)
        return ids


def _own_panels() -> dict[str, Panel]:
    """Return the panels of the games' records, then those of the paper, in the order of the games."""
    # Computed anew, because a module of the user's may register a record at any time.
    record_panels = {
        name: _panel_of(record.name, fields) for record in RECORDS.values() for name, fields in record.panels.items()
    }
    return record_panels | {
        name: _panel_of(game, fields) for name, (game, fields) in RELEASED.items() if game in RECORDS
    }


def base_panels() -> dict[str, Panel]:
    """Return all panels by their names without a size. This loads the opponents of every game."""
    own_panels = _own_panels()
    panels = {name: panel for name, panel in own_panels.items() if panel.opponents}
    for prefix, split in list_splits().items():
        panels |= _split_panels(prefix, split)
    panels |= {f"{prefix}-{RELATED}": _series_panel(prefix, series) for prefix, series in list_series().items()}
    # Games of one player come last in lists; the names from above keep their places.
    return {**panels, **own_panels}


def _base_panel(name: str) -> Panel | None:
    """Return a panel by its name without a size, or None. This loads the opponents of that game alone."""
    prefix, _, part = name.rpartition("-")
    if name.startswith("adapt-"):
        return _adapt_panel(name)
    if part == RELATED:
        series = find_series(prefix)
        return None if series is None else _series_panel(prefix, series)
    own_panels = _own_panels()
    if name in own_panels or part not in ("train", "heldout"):
        return own_panels.get(name)
    split = find_split(prefix)
    return None if split is None else _split_panels(prefix, split)[name]


def _adapt_panel(name: str) -> Panel | None:
    """Return the panel `adapt-CELL` or `adapt-mini-CELL` of the suite `adapt`, or None if there is no such cell."""
    # This import loads several games, which other panels do not need.
    from mage_envs.benchmarks.evaluation.suites.adapt import META_EPISODES, MINI_ADAPT, MINI_META_EPISODES, cell_of

    cell, mini = cell_of(name), name.startswith(MINI_ADAPT)
    if cell is None:
        return None
    return cell_panel(cell, MINI_META_EPISODES if mini else META_EPISODES, mini)


def cell_panel(cell: AdaptCell, size: int, mini: bool = False) -> Panel:
    """Return the panel of a cell with at least `size` meta-episodes. `mini` has other tasks."""
    return Panel(
        env_id=f"mage/{cell.game}-Meta-v0",
        about=cell.about,
        seed=cell.seed + 100 * mini,
        size=size,
        opponents=cell.opponents,
        seats=cell.seats,
        env_kwargs=cell.env_kwargs(),
        own_seeds=True,
    )


def list_panels() -> tuple[str, ...]:
    """Return the names of all panels without a size, which `named_panel` accepts. This loads every game's opponents."""
    return tuple(base_panels())


def panel_names() -> tuple[str, ...]:
    """Return all names with their sizes."""
    return tuple(f"{name}-{size}" for name, panel in base_panels().items() for size in panel.sizes)


def named_panel(name: str) -> Panel:
    """Return a panel by its name, with or without a size. Raise ValueError with the nearest name if it is unknown."""
    base, _, size = name.rpartition("-")
    match = _base_panel(name)
    if match is None and size.isdecimal():
        match = _base_panel(base)
        if match is not None:
            match = replace(match, size=int(size)) if int(size) in (*match.sizes, QUICK) else None
    if match is None:
        names = base_panels()
        hint = nearest_name(name, [*names, *panel_names()])
        raise ValueError(f"Unknown panel {name!r}.{hint} mage list panels shows all of them: {', '.join(names)}.")
    return match


def full_name(name: str) -> str:
    """Return a panel's name with its size, unless the size is one of its own."""
    match = _base_panel(name)
    return name if match is None or match.size not in (*SIZES, *match.sizes) else f"{name}-{match.sizes[0]}"
