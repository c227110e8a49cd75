"""Proves goals against the shop itself: reachable, worth full reward, and surrounded by near misses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from mage_envs.games.webshop.goals import UNLIMITED, Goal
from mage_envs.games.webshop.products import Product, ProductStanding
from mage_envs.games.webshop.reward import attribute_met, lower_texts, options_matched
from mage_envs.games.webshop.search.colours import normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.shop import Shop

SEEN = 20
"""Results of the instruction's own query among which near misses count."""
NEAR = 0.33
"""Reward from which on a product that falls short is a near miss."""
_PRODUCTS, _PARTS = 1 << 12, 1 << 16
"""Products, and parts of rewards, that a buyer remembers."""
Search = Callable[[str], Sequence[int]]
"""Catalogue positions of the hits for a query, best first."""
_NOTHING = Goal(
    id="",
    kind="made",
    split="",
    asin="",
    instruction="",
    attributes=(),
    options=(),
    price_upper=UNLIMITED,
    query="",
    category="",
    product_category="",
    title="",
)


class Proof(NamedTuple):
    """What a scripted buyer found out about a goal."""

    goal_id: str
    split: str
    reward: float
    """Of the target with the wanted options; 1.0 is success."""
    rank: int
    """Of the target for the instruction as the query, from 1; 0 when it is not among the results."""
    query: str
    """The first scripted query that finds the target; empty where none does."""
    by_words: bool
    """Whether that query has only words of the goal, and not all of the target's title or text."""
    near_misses: int
    """Products among the first `SEEN` results for the instruction with a reward from `NEAR` to below 1."""
    alternatives: int
    """Products but the target with full reward, among all results that were looked at."""

    @property
    def holds(self) -> bool:
        """Whether the goal is reachable with full reward."""
        return self.reward == 1.0 and bool(self.query)

    @property
    def standing(self) -> ProductStanding:
        """What goals record of it."""
        return ProductStanding(self.rank, self.near_misses, self.alternatives)


class ProofSummary(NamedTuple):
    """Shares over many proofs."""

    goals: int
    holding: float
    by_words: float
    """Goals whose target, or another product of full reward, is found by words of the goal."""
    beyond_first_page: float
    """Goals whose target is not among the first ten results for the instruction."""
    near_missed: float
    """Goals with at least five near misses."""
    alternatives: float
    """Mean number of other products with full reward."""


def prove(shop: Shop, goals: Iterable[Goal]) -> Iterator[Proof]:
    """The proof of each goal; about 2 ms each."""
    buyer = Buyer(shop)
    return (proof_of(shop, goal, buyer, shop.search) for goal in goals)


def summary(proofs: Sequence[Proof]) -> ProofSummary:
    """What the proofs say together. Raises ValueError where there are none."""
    if not proofs:
        raise ValueError("There are no proofs to sum up; give at least one goal.")
    count = len(proofs)
    return ProofSummary(
        goals=count,
        holding=sum(proof.holds for proof in proofs) / count,
        by_words=sum(proof.by_words or proof.alternatives > 0 for proof in proofs) / count,
        beyond_first_page=sum(not 1 <= proof.rank <= 10 for proof in proofs) / count,
        near_missed=sum(proof.near_misses >= 5 for proof in proofs) / count,
        alternatives=sum(proof.alternatives for proof in proofs) / count,
    )


def best_reward(shop: Shop, product: Product, goal: Goal) -> float:
    """The reward of buying the product with those of its options that meet the goal best."""
    chosen: dict[str, str] = {}
    for wanted in goal.options:
        for axis, values in product.options.items():
            if axis not in chosen and (found := _meeting(values, str(wanted))) is not None:
                chosen[axis] = found
                break
    return shop.score(product, goal, chosen).total


class Buyer:
    """Rewards as `best_reward` finds them, from parts that it remembers: goals of a family share nearly all of them."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._product = lru_cache(_PRODUCTS)(shop.catalogue.product)
        self._price = lru_cache(_PARTS)(lambda position: self._product(position).price(shop.seed))
        self._texts = lru_cache(_PRODUCTS)(self._read)
        self._has = lru_cache(_PARTS)(self._told)
        self._factor = lru_cache(_PARTS)(self._related)
        self._choices = lru_cache(_PARTS)(self._offered)

    def reward(self, position: int, goal: Goal) -> float:
        """The reward of buying the product at a position with those of its options that meet the goal best."""
        met = sum(self._has(position, attribute) for attribute in goal.attributes)
        met += self._matched(position, goal) + self._affords(position, goal)
        return met / (len(goal.attributes) + len(goal.options) + 1) * self._like(position, goal)

    def is_satisfied(self, position: int, goal: Goal) -> bool:
        """Whether that reward is 1.0; found sooner than the reward."""
        return (
            self._affords(position, goal)
            and all(self._has(position, attribute) for attribute in goal.attributes)
            and self._matched(position, goal) == len(goal.options)
            and self._like(position, goal) == 1.0
        )

    def _matched(self, position: int, goal: Goal) -> int:
        chosen: dict[str, str] = {}
        for wanted in goal.options:
            for axis, value in self._choices(position, str(wanted)):
                if axis not in chosen:
                    chosen[axis] = value
                    break
        return options_matched(chosen.values(), goal.options)

    def _affords(self, position: int, goal: Goal) -> bool:
        return self._price(position) <= goal.price_upper

    def _like(self, position: int, goal: Goal) -> float:
        return self._factor(position, goal.query, goal.product_category, goal.title)

    def _told(self, position: int, attribute: str) -> bool:
        return attribute_met(self._product(position), attribute, partial(self._texts, position))

    def _read(self, position: int) -> tuple[str, str, str]:
        return lower_texts(self._product(position))

    def _related(self, position: int, query: str, product_category: str, title: str) -> float:
        goal = _NOTHING._replace(attributes=("",), query=query, product_category=product_category, title=title)
        return self._shop.score(self._product(position), goal, {}).r_type

    def _offered(self, position: int, wanted: str) -> list[tuple[str, str]]:
        """The value of each axis that the shop takes for the wanted one, where there is one."""
        options = self._product(position).options.items()
        return [(axis, found) for axis, values in options if (found := _meeting(values, wanted)) is not None]


def _meeting(values: Sequence[str], wanted: str) -> str | None:
    """The value that the shop takes for the wanted one: itself, or one that matches it."""
    if wanted in values:
        return wanted
    plain = normalize_colour(wanted)
    return next((value for value in values if matches(normalize_colour(value), plain)), None)


def proof_of(shop: Shop, goal: Goal, buyer: Buyer, search: Search) -> Proof:
    """What a scripted buyer finds out about a goal by a search that ranks as the shop's does."""
    target = shop.catalogue.find(goal.asin)
    if target is None:
        raise ValueError(f"Goal {goal.id!r} is for {goal.asin!r}, which the catalogue does not have.")
    own = search(goal.instruction)
    rank = own.index(target) + 1 if target in own else 0
    query, by_words, looked_at = goal.instruction if rank else "", rank > 0, dict.fromkeys(own)
    if not rank:
        product = shop.catalogue.product(target)
        for words in (*_queries(goal), product.title, product.indexed_text()):
            results = search(words)
            looked_at |= dict.fromkeys(results)
            if target in results:
                query, by_words = words, words not in (product.title, product.indexed_text())
                break
    return Proof(
        goal_id=goal.id,
        split=goal.split,
        reward=best_reward(shop, shop.catalogue.product(target), goal),
        rank=rank,
        query=query,
        by_words=by_words,
        near_misses=sum(NEAR <= buyer.reward(position, goal) < 1.0 for position in own[:SEEN]),
        alternatives=sum(buyer.is_satisfied(position, goal) for position in looked_at if position != target),
    )


def _queries(goal: Goal) -> Iterator[str]:
    """What the instruction asks for, in the shop's words."""
    wanted = [*goal.attributes, *map(str, goal.options)]
    yield " ".join([goal.query, *wanted])
    yield " ".join([goal.query, *goal.attributes])
    for word in wanted:
        yield f"{goal.query} {word}"
    yield goal.query
