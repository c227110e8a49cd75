"""The shop that all sessions share: catalogue, search engine and goals, read only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.catalogue_maker import family_of
from mage_envs.games.webshop.chance import uniform
from mage_envs.games.webshop.goal_tables import (
    EVERY,
    UPSTREAM_RANGES,
    OwnGoals,
    StoredGoals,
    own_goals,
    upstream_shares,
)
from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.reward import Score, Tagger, score
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.search.nouns import nouns, spacy_nouns
from mage_envs.games.webshop.store import Catalogue

HITS = 50
"""Products that a search finds at most."""
_KEPT_SEARCHES = 128
TAGGERS: dict[str, Callable[[], Tagger]] = {"builtin": lambda: nouns, "spacy": spacy_nouns}
"""What finds the nouns of titles, which the reward compares, by name. Raises ImportError where spaCy is missing."""


class Shop:
    """A catalogue with one table of goals, and with its price ranges drawn by `seed`.

    It is never changed and can be large: a copy is the shop itself, and a pickle says how to open it again.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        kind: str,
        seed: int = 0,
        *,
        title_tagger: str = "builtin",
        own: tuple[Goal, ...] = (),
    ) -> None:
        """`kind`: of the catalogue's goals; `own`: goals instead of those. Raises ValueError, or what a tagger does."""
        if title_tagger not in TAGGERS:
            raise ValueError(
                f"title_tagger={title_tagger!r} is unknown; choose one of: {', '.join(map(repr, TAGGERS))}."
            )
        self.catalogue = catalogue
        self.seed = seed
        self._own = own
        self._title_tagger = title_tagger
        self._tagger = TAGGERS[title_tagger]()
        self._table = OwnGoals(own) if own else StoredGoals(catalogue, kind, seed)
        self._index = Index.open(catalogue.folder / "index", catalogue.checked)
        self.search = lru_cache(_KEPT_SEARCHES)(self._search)
        """Catalogue positions of the hits for a query, best first."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shop, (self.catalogue.folder, self.kind, self.seed, self._title_tagger, self._own)

    def _search(self, query: str) -> tuple[int, ...]:
        return self._index.search(query, HITS)

    @property
    def fingerprint(self) -> str:
        """Twelve characters that tell catalogue, goals and prices apart from all others, to write beside results."""
        content = (self.catalogue.about["files"], self.seed, self._table.content)
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    # -- goals -------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Of the goals: `made`, `synthetic`, `human` or `own`."""
        return self._table.kind

    @property
    def splits(self) -> Mapping[str, int]:
        """The number of goals in each split."""
        return self._table.splits

    def __len__(self) -> int:
        """The number of goals."""
        return sum(self.splits.values())

    def numbers(self, split: str, upstream: bool = False) -> NDArray[np.uint32]:
        """Numbers of a split's goals; `upstream`: by the original's ranges. Raises ValueError for an empty split."""
        numbers = self._table.numbers(split, upstream)
        if numbers is None or not len(numbers):
            known = UPSTREAM_RANGES.get(self.kind, self.splits) if upstream else self.splits
            raise ValueError(
                f"split={split!r} has no {self.kind} goals among the {len(self)} of this catalogue; "
                f"choose one of: {', '.join(map(repr, known))}."
            )
        return numbers

    def draw(self, split: str, rng: np.random.Generator, upstream: bool = False) -> Goal:
        """One of a split's goals. Among all, `upstream` draws by weight and is off by one as the original: it never
        draws the first goal and gives each the weight of the one before it."""
        numbers = self.numbers(split, upstream)
        if upstream and split == EVERY:
            shares = upstream_shares(self.catalogue, self.kind)
            place = min(int(np.searchsorted(shares, rng.random(), "right")) + 1, len(numbers) - 1)
        else:
            place = int(rng.integers(len(numbers)))
        return self.goal_at(int(numbers[place]))

    def goal_at(self, number: int) -> Goal:
        """The goal with that number, counted through all products."""
        return self._table.at(number)

    def goals(self, split: str, upstream: bool = False) -> Iterator[Goal]:
        """All goals of a split."""
        return (self.goal_at(int(number)) for number in self.numbers(split, upstream))

    def goal_ids(self, split: str, upstream: bool = False) -> Iterator[str]:
        """The ids of a split's goals, for `reset(options={"task": id})`."""
        return (goal.id for goal in self.goals(split, upstream))

    def goals_of(self, product: Product) -> Iterator[Goal]:
        """All goals of a product."""
        return iter(self._table.of(product))

    def goal(self, goal_id: str) -> Goal:
        """The goal with that id. Raises ValueError where there is none."""
        goal = self._table.find(goal_id)
        if goal is None:
            raise ValueError(
                f"There is no {self.kind} goal {goal_id!r} in this catalogue; an id looks like {self.goal_at(0).id!r}."
            )
        return goal

    def family(self, goal_id: str) -> str:
        """What tells the goals of near duplicates from all others: the family's number in a generated catalogue, the
        product's asin in any other. Raises ValueError where there is no such goal."""
        asin, source = self.goal(goal_id).asin, self.catalogue.about["source"]
        if source["kind"] != "generated":
            return asin
        return str(family_of(asin, held_out=source["held_out"]))

    def with_goals(self, entries: Sequence[Mapping[str, Any]]) -> Shop:
        """This shop with a user's own goals instead.

        Each entry has `asin`, `instruction` (shown as it is) and `attributes`, and may have `options` (values, or axis
        to value), `price_upper` in dollars, and `split` (else `train`). Raises ValueError naming entry and field.
        """
        own = own_goals(self.catalogue, entries)
        return open_shop(self.catalogue.folder, OwnGoals.kind, self.seed, self._title_tagger, own)

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
        return score(product, goal, product.price(self.seed), options, self._tagger)


def open_shop(folder: Path, kind: str, seed: int, title_tagger: str = "builtin", own: tuple[Goal, ...] = ()) -> Shop:
    """The shop of a built folder, as `Shop` takes the rest; environments of a process share it."""
    return _opened(folder.absolute(), kind, seed, title_tagger, own)


@lru_cache(maxsize=16)
def _opened(folder: Path, kind: str, seed: int, title_tagger: str, own: tuple[Goal, ...]) -> Shop:
    return Shop(catalogue=_catalogue(folder), kind=kind, seed=seed, title_tagger=title_tagger, own=own)


_catalogue = lru_cache(maxsize=16)(Catalogue)
"""The catalogue of a folder, which shops with other goals share."""
