"""The shop that all sessions share: catalogue, search engine and goals, read only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.chance import uniform
from mage_envs.games.webshop.goals import KINDS, Goal, parse_id
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.reward import Score, score
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.store import Catalogue

HITS = 50
"""Products that a search finds at most."""
_KEPT_SEARCHES = 2048
UPSTREAM_RANGES: Mapping[str, Mapping[str, slice]] = {
    "human": {"test": slice(0, 500), "val": slice(500, 1500), "train": slice(1500, None)},
    "synthetic": {"test": slice(0, 500), "val": slice(0, 500), "train": slice(500, None)},
}
"""The goal numbers, in the original's order, that papers call a split: its authors' for people's instructions, those of
verl-agent, LaMer and MAGE for synthetic ones (which name no test goals; their validation goals serve)."""


class Shop:
    """A catalogue with one kind of goals, and with its price ranges drawn by `seed`."""

    def __init__(self, catalogue: Catalogue, kind: str, seed: int = 0) -> None:
        self.catalogue = catalogue
        self.kind = kind
        self.seed = seed
        self._index = Index.open(catalogue.folder / "index")
        self.search = lru_cache(_KEPT_SEARCHES)(self._search)
        """Catalogue positions of the hits for a query, best first."""
        self._counts: Mapping[str, int] = catalogue.about["goals"][kind]
        if not self._counts:
            have = [name for name, counts in catalogue.about["goals"].items() if counts]
            raise ValueError(
                f"The catalogue in {catalogue.folder} has no {kind} goals; it has: {', '.join(have) or 'none'}."
            )

    def _search(self, query: str) -> tuple[int, ...]:
        return self._index.search(query, HITS)

    @property
    def fingerprint(self) -> str:
        """Twelve characters that tell catalogue, goals and prices apart from all others, to write beside results."""
        content = (self.catalogue.about["files"], self.kind, self.seed)
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    # -- goals -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of goals."""
        return sum(self._counts.values())

    def numbers(self, split: str, upstream: bool = False) -> NDArray[np.uint32]:
        """Numbers of a split's goals; `upstream`: by the original's ranges. Raises ValueError for an empty split."""
        table = f"goals.{self.kind}"
        ranges = UPSTREAM_RANGES.get(self.kind) if upstream else None
        known = tuple(self._counts if ranges is None else ranges)
        if split in known:
            numbers = self.catalogue.table(f"{table}.{split}" if ranges is None else f"{table}.order")
            numbers = numbers if ranges is None else numbers[ranges[split]]
            if len(numbers):
                return numbers
        raise ValueError(
            f"split={split!r} has no {self.kind} goals among the {len(self)} of this catalogue; "
            f"choose one of: {', '.join(map(repr, known))}."
        )

    def goal_at(self, number: int) -> Goal:
        """The goal with that number, counted through all products."""
        ends = self.catalogue.table(f"goals.{self.kind}.ends")
        position = int(np.searchsorted(ends, number, "right"))
        product = self.catalogue.product(position)
        offset = number - (int(ends[position - 1]) if position else 0)
        kind = KINDS[self.kind]
        return kind.make(product, kind.numbers(product)[offset], self.seed)

    def goals(self, split: str, upstream: bool = False) -> Iterator[Goal]:
        """All goals of a split."""
        return (self.goal_at(int(number)) for number in self.numbers(split, upstream))

    def goals_of(self, product: Product) -> Iterator[Goal]:
        """All goals of a product."""
        kind = KINDS[self.kind]
        return (kind.make(product, number, self.seed) for number in kind.numbers(product))

    def goal(self, goal_id: str) -> Goal:
        """The goal with that id. Raises ValueError where there is none."""
        parsed = parse_id(goal_id)
        if parsed is not None:
            asin, kind, number = parsed
            position = self.catalogue.find(asin)
            if kind == self.kind and position is not None:
                product = self.catalogue.product(position)
                if number in KINDS[kind].numbers(product):
                    return KINDS[kind].make(product, number, self.seed)
        raise ValueError(
            f"There is no {self.kind} goal {goal_id!r} in this catalogue; an id looks like {self.goal_at(0).id!r}."
        )

    # -- what sessions ask ---------------------------------------------------------------------------------------

    def magic(self, query: str, goal: Goal) -> Sequence[int] | None:
        """The listing that the original makes of a query that begins with `<r>`, `<c>` or `<q>`, else None.

        Raises LookupError where the original fails. Its 50 random products are drawn here by the goal.
        """
        words = query.split(" ")
        if words[0] == "<r>":
            count = len(self.catalogue)
            if count < HITS:
                raise LookupError(f"{HITS} products cannot be drawn from {count}")
            rng = np.random.default_rng(int(uniform(self.seed, goal.id, "<r>") * 2**53))
            return tuple(rng.choice(count, HITS, replace=False).tolist())
        if words[0] == "<c>" and len(words) > 1:
            return self.catalogue.where("categories", words[1].strip())
        if words[0] == "<q>":
            return self.catalogue.where("queries", " ".join(words[1:]).strip())
        if words[0] in ("<a>", "<c>"):
            raise LookupError(f"the original fails on {query!r}")
        return None

    def score(self, product: Product, goal: Goal, options: Mapping[str, str]) -> Score:
        """The score of buying `product` with `options` for `goal`."""
        return score(product, goal, product.price(self.seed), options)


@lru_cache(maxsize=16)
def open_shop(folder: Path, kind: str, seed: int) -> Shop:
    """The shop of a built folder; environments of a process share it."""
    return Shop(Catalogue(folder), kind, seed)
