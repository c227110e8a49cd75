"""The goals of a shop: those of its catalogue's products, or the user's own goals."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.files.bounded import parse_json, read_named
from mage_envs.games.webshop.goals import KINDS, Goal, goal_for, parse_id
from mage_envs.games.webshop.products import UNLIMITED, MadeGoal, Product
from mage_envs.games.webshop.store import Catalogue
from mage_envs.loading.imports import check_path

EVERY = "all"
"""Split of all goals, which exists only with `upstream`. The original draws from it by weight."""
UPSTREAM_RANGES: Mapping[str, Mapping[str, slice]] = {
    "human": {"test": slice(0, 500), "val": slice(500, 1500), "train": slice(1500, None), EVERY: slice(None)},
    "synthetic": {"test": slice(0, 500), "val": slice(0, 500), "train": slice(500, None), EVERY: slice(None)},
}
"""Goal numbers of the splits in papers, in the original's order.

Human goals have the splits of the original's authors. Synthetic goals have those of verl-agent, LaMer and MAGE, which
define no test split; `test` is their validation split.
"""


class StoredGoals:
    """The goals of one kind in a catalogue, made on demand.

    Args:
        kind: Kind of the goals: `made`, `synthetic` or `human`.

    Raises:
        ValueError: If the catalogue has no goals of that kind.
    """

    def __init__(self, catalogue: Catalogue, kind: str, seed: int) -> None:
        self.kind = kind
        """Kind of the goals: `made`, `synthetic` or `human`."""
        self.content: object = (kind, seed)
        """Value that distinguishes these goals from others of the same catalogue; JSON-serializable."""
        self.splits: Mapping[str, int] = catalogue.about["goals"][kind]
        """Number of goals in each split."""
        self._catalogue, self._seed, self._rule = catalogue, seed, KINDS[kind]
        if not self.splits:
            have = [name for name, counts in catalogue.about["goals"].items() if counts]
            raise ValueError(
                f"The catalogue in {catalogue.folder} has no {kind} goals; it has: {', '.join(have) or 'none'}."
            )

    def numbers(self, split: str, upstream: bool) -> NDArray[np.uint32] | None:
        """Return the numbers of a split's goals, counted from 0, or None if the split is unknown."""
        table = f"goals.{self.kind}"
        ranges = UPSTREAM_RANGES.get(self.kind) if upstream else None
        if split not in (self.splits if ranges is None else ranges):
            return None
        if ranges is None:
            return self._catalogue.table(f"{table}.{split}")
        return self._catalogue.table(f"{table}.order")[ranges[split]]

    def at(self, number: int) -> Goal:
        """Return the goal with that number."""
        ends = self._catalogue.table(f"goals.{self.kind}.ends")
        # With a number of another type NumPy would convert a copy of the whole table.
        position = int(np.searchsorted(ends, ends.dtype.type(number), "right"))
        product = self._catalogue.product(position)
        offset = number - (int(ends[position - 1]) if position else 0)
        return self._rule.make(product, self._rule.numbers(product)[offset], self._seed)

    def of(self, product: Product) -> Iterator[Goal]:
        """Return all goals of a product."""
        return (self._rule.make(product, number, self._seed) for number in self._rule.numbers(product))

    def find(self, goal_id: str) -> Goal | None:
        """Return the goal with that id, or None if there is no such goal."""
        parsed = parse_id(goal_id)
        position = None if parsed is None else self._catalogue.find(parsed[0])
        if parsed is None or parsed[1] != self.kind or position is None:
            return None
        product, number = self._catalogue.product(position), parsed[2]
        return self._rule.make(product, number, self._seed) if number in self._rule.numbers(product) else None


@lru_cache(maxsize=4)
def upstream_weights(catalogue: Catalogue, kind: str) -> NDArray[np.float64]:
    """Return the weight of each goal, in the order of `Shop.numbers("all", upstream=True)`.

    The weight of a human goal is 1. The weight of a synthetic goal is the mean over its attributes of 1 / (number of
    goals that want the attribute). The function reads the whole catalogue: about a minute per million products.
    """
    order = catalogue.table(f"goals.{kind}.order")
    if kind != "synthetic":
        return np.ones(len(order))
    ends = np.asarray(catalogue.table(f"goals.{kind}.ends")).astype(np.int64)
    # All synthetic goals of a product want the same attributes, so one weight per product suffices.
    counts = np.diff(ends, prepend=0)
    attribute_lists = [catalogue.product(position).instruction_attributes for position in range(len(catalogue))]
    goal_counts: Counter[str] = Counter()
    for names, count in zip(attribute_lists, counts.tolist(), strict=True):
        for name in names if count else ():
            goal_counts[name] += count
    weights = [
        sum(1.0 / goal_counts[name] for name in names) / len(names) if count else 0.0
        for names, count in zip(attribute_lists, counts.tolist(), strict=True)
    ]
    goal_weights: NDArray[np.float64] = np.repeat(np.array(weights), counts)[order]
    return goal_weights


@lru_cache(maxsize=4)
def upstream_shares(catalogue: Catalogue, kind: str) -> NDArray[np.float64]:
    """Return the cumulative share of the weights, in the original's order."""
    sums = np.cumsum(upstream_weights(catalogue, kind))
    shares: NDArray[np.float64] = sums / sums[-1]
    return shares


class OwnGoals:
    """A user's own goals, with the interface of `StoredGoals`. An id consists of the asin and the place in the list."""

    kind = "own"

    def __init__(self, goals: tuple[Goal, ...]) -> None:
        self.content: object = goals
        self.splits: Mapping[str, int] = Counter(goal.split for goal in goals)
        self._goals = goals
        self._by_id = {goal.id: goal for goal in goals}

    def numbers(self, split: str, upstream: bool) -> NDArray[np.uint32] | None:
        numbers = [number for number, goal in enumerate(self._goals) if goal.split == split]
        return np.array(numbers, np.uint32) if numbers else None

    def at(self, number: int) -> Goal:
        return self._goals[number]

    def of(self, product: Product) -> Iterator[Goal]:
        return (goal for goal in self._goals if goal.asin == product.asin)

    def find(self, goal_id: str) -> Goal | None:
        return self._by_id.get(goal_id)


def own_goals(catalogue: Catalogue, entries: Sequence[Mapping[str, Any]]) -> tuple[Goal, ...]:
    """Return the goals of a user's entries. Raises ValueError that names the entry and the field."""
    if not entries:
        raise ValueError("The list of own goals is empty; it must have at least one goal.")
    return tuple(_build_goal(catalogue, number, entry) for number, entry in enumerate(entries))


_FIELDS = ("asin", "instruction", "attributes", "options", "price_upper", "split")


def _build_goal(catalogue: Catalogue, number: int, entry: Mapping[str, Any]) -> Goal:
    """Return the goal of an entry. Raises ValueError that names the entry and the field."""

    def wrong(problem: str) -> ValueError:
        return ValueError(f"Own goal {number} {problem}.")

    if not isinstance(entry, Mapping):
        raise wrong(f"must be an object with {', '.join(_FIELDS)}, got {entry!r:.60}")
    if unknown := sorted(set(map(str, entry)) - set(_FIELDS)):
        raise wrong(f"has the unknown field {unknown[0]!r}; the fields are {', '.join(_FIELDS)}")
    asin, instruction, split = entry.get("asin"), entry.get("instruction"), entry.get("split", "train")
    if not all(isinstance(text, str) and text for text in (asin, instruction, split)):
        raise wrong("must have 'asin' and 'instruction' (and 'split' if present) as non-empty strings")
    position = catalogue.find(str(asin))
    if position is None:
        raise wrong(f"is for {asin!r}, which this catalogue does not have")
    product = catalogue.product(position)
    attributes, options = entry.get("attributes"), entry.get("options", ())
    options = tuple(options.values()) if isinstance(options, Mapping) else options
    for name, texts in (("attributes", attributes), ("options", options)):
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise wrong(f"must have {name!r} as a list of strings, got {texts!r:.60}")
    # The reward divides by the number of attributes.
    if not attributes:
        raise wrong("must have at least one attribute")
    price = entry.get("price_upper", UNLIMITED)
    if isinstance(price, bool) or not isinstance(price, int | float) or not price > 0:
        raise wrong(f"must have 'price_upper' as a positive number of dollars, got {price!r:.60}")
    specification = MadeGoal(
        split=str(split),
        instruction=str(instruction),
        attributes=tuple(attributes),
        options=tuple(options),
        price_upper=float(price),
    )
    return goal_for(product, OwnGoals.kind, number, specification)


def read_goals(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the entries of a file of own goals, which is one JSON array. Raises ValueError if it is not."""
    check_path(path, "goals")
    try:
        entries = parse_json(read_named(Path(path)))
    except (OSError, ValueError) as error:
        raise ValueError(f"goals={str(path)!r} cannot be read as a file of own goals: {error}.") from error
    if not isinstance(entries, list):
        raise ValueError(f"goals={str(path)!r} must hold a JSON array of goals.")
    return entries
