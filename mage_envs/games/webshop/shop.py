"""The shop, which all sessions share: catalogue, search engine and goals, read-only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.catalogue_maker.make import family_of
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
"""Maximum number of results of a search."""
_KEPT_SEARCHES = 128
_KEPT_SHOPS = 32
"""Number of open shops per process. A panel over 20 catalogues must not open them again and again."""
TAGGERS: dict[str, Callable[[], Tagger]] = {"builtin": lambda: nouns, "spacy": spacy_nouns}
"""Functions that make the tagger of titles for the reward, by name. They raise ImportError if spaCy is missing."""


class Shop:
    """A catalogue with one table of goals, and with prices drawn from their ranges by `seed`.

    A shop is immutable and can be large. A copy is the shop itself, and a pickle contains the arguments to open it.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        kind: str,
        seed: int = 0,
        *,
        title_tagger: str = "builtin",
        user_goals: tuple[Goal, ...] = (),
    ) -> None:
        """Open the search index and the table of goals.

        Args:
            kind: Kind of the catalogue's goals: `made`, `synthetic` or `human`.
            title_tagger: Name of the tagger, a key of `TAGGERS`.
            user_goals: The user's own goals, which replace those of the catalogue.

        Raises:
            ValueError: If the tagger is unknown or the catalogue has no goals of that kind.
            ImportError: If the tagger is not installed.
        """
        if title_tagger not in TAGGERS:
            raise ValueError(
                f"title_tagger={title_tagger!r} is unknown; choose one of: {', '.join(map(repr, TAGGERS))}."
            )
        self.catalogue = catalogue
        self.seed = seed
        self._user_goals = user_goals
        self._title_tagger = title_tagger
        self._tagger = TAGGERS[title_tagger]()
        self._table = OwnGoals(user_goals) if user_goals else StoredGoals(catalogue, kind, seed)
        self._index = Index.open(catalogue.folder / "index", catalogue.verify)
        # Sessions repeat queries, for example in a group of episodes with the same goal.
        self.search = lru_cache(_KEPT_SEARCHES)(self._search)
        """Function that returns the catalogue positions of the hits for a query, best first."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shop, (self.catalogue.folder, self.kind, self.seed, self._title_tagger, self._user_goals)

    def _search(self, query: str) -> tuple[int, ...]:
        return self._index.search(query, HITS)

    @property
    def fingerprint(self) -> str:
        """Hash of catalogue, goals and prices with twelve characters, to record with results."""
        content = (self.catalogue.about["files"], self.seed, self._table.content)
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    # -- goals -------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Kind of the goals: `made`, `synthetic`, `human` or `own`."""
        return self._table.kind

    @property
    def splits(self) -> Mapping[str, int]:
        """Number of goals in each split."""
        return self._table.splits

    def __len__(self) -> int:
        """Return the number of goals."""
        return sum(self.splits.values())

    def numbers(self, split: str, upstream: bool = False) -> NDArray[np.uint32]:
        """Return the numbers of a split's goals. Raises ValueError if the split has no goals.

        With `upstream` the split is the original's range of goal numbers.
        """
        numbers = self._table.numbers(split, upstream)
        if numbers is None or not len(numbers):
            valid_splits = UPSTREAM_RANGES.get(self.kind, self.splits) if upstream else self.splits
            raise ValueError(
                f"split={split!r} has no {self.kind} goals among the {len(self)} of this catalogue; "
                f"choose one of: {', '.join(map(repr, valid_splits))}."
            )
        return numbers

    def draw(self, split: str, rng: np.random.Generator, upstream: bool = False) -> Goal:
        """Draw a goal of a split.

        Args:
            rng: Source of randomness; one number is drawn.
            upstream: If True, use the original's splits, and draw by weight from the split `all`.


        Raises:
            ValueError: If the split has no goals.
        """
        numbers = self.numbers(split, upstream)
        # The original is off by one: it never draws the first goal, and each goal has the weight of the one before it.
        if upstream and split == EVERY:
            shares = upstream_shares(self.catalogue, self.kind)
            index = min(int(np.searchsorted(shares, rng.random(), "right")) + 1, len(numbers) - 1)
        else:
            index = int(rng.integers(len(numbers)))
        return self.goal_at(int(numbers[index]))

    def goal_at(self, number: int) -> Goal:
        """Return the goal with that number, counted over all products."""
        return self._table.at(number)

    def goals(self, split: str, upstream: bool = False) -> Iterator[Goal]:
        """Return all goals of a split."""
        return (self.goal_at(int(number)) for number in self.numbers(split, upstream))

    def goal_ids(self, split: str, upstream: bool = False) -> Iterator[str]:
        """Return the ids of a split's goals, for `reset(options={"task": id})`."""
        return (goal.id for goal in self.goals(split, upstream))

    def goals_of(self, product: Product) -> Iterator[Goal]:
        """Return all goals of a product."""
        return iter(self._table.of(product))

    def goal(self, goal_id: str) -> Goal:
        """Return the goal with that id. Raises ValueError if the id is unknown."""
        goal = self._table.find(goal_id)
        if goal is None:
            raise ValueError(
                f"There is no {self.kind} goal {goal_id!r} in this catalogue; use an id such as {self.goal_at(0).id!r}."
            )
        return goal

    def family(self, goal_id: str) -> str:
        """Return the family of a goal. Raises ValueError if the id is unknown.

        The goals of near duplicates have the same family. It is the number of the family in a generated catalogue, and
        the product's asin in any other.
        """
        asin, source = self.goal(goal_id).asin, self.catalogue.about["source"]
        if source["kind"] != "generated":
            return asin
        # Families of different catalogues have the same numbers.
        return f"{source['seed']}-{family_of(asin, held_out=source['held_out'], seed=source['seed'])}"

    def with_goals(self, entries: Sequence[Mapping[str, Any]]) -> Shop:
        """Return a shop with the same catalogue and the user's own goals.

        Each entry has `asin`, `instruction` (shown unchanged) and `attributes`. It may have `options` (values, or axis
        to value), `price_upper` in dollars, and `split` (default: `train`). Raises ValueError that names entry and
        field.
        """
        user_goals = own_goals(self.catalogue, entries)
        return open_shop(self.catalogue.folder, OwnGoals.kind, self.seed, self._title_tagger, user_goals)

    # -- requests of sessions ------------------------------------------------------------------------------------

    def magic(self, query: str, goal: Goal) -> Sequence[int] | None:
        """Return the original's results for a query that starts with `<r>`, `<c>` or `<q>`, else None.

        Raises LookupError if the original fails on the query.
        """
        words = query.split(" ")
        # The original draws 50 random products. Here the goal determines them, so that an episode can be reproduced.
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
        """Return the score of a purchase.

        Args:
            options: Chosen options, axis to value.
        """
        return score(product, goal, product.price(self.seed), options, self._tagger)


def open_shop(
    folder: Path, kind: str, seed: int, title_tagger: str = "builtin", user_goals: tuple[Goal, ...] = ()
) -> Shop:
    """Return the shop of a built folder. All environments of a process share it.

    Args:
        kind: Kind of the catalogue's goals.
        title_tagger: Name of the tagger of titles.
        user_goals: The user's own goals, which replace those of the catalogue.
    """
    # The cache compares arguments, so the path must not depend on the current folder.
    return _load_shop(folder.absolute(), kind, seed, title_tagger, user_goals)


@lru_cache(_KEPT_SHOPS)
def _load_shop(folder: Path, kind: str, seed: int, title_tagger: str, user_goals: tuple[Goal, ...]) -> Shop:
    return Shop(catalogue=_catalogue(folder), kind=kind, seed=seed, title_tagger=title_tagger, user_goals=user_goals)


_catalogue = lru_cache(_KEPT_SHOPS)(Catalogue)
"""Function that returns the catalogue of a folder. Shops with different goals share it."""
