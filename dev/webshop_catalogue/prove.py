"""Proof of goals against the shop itself: reachable, worth full reward, and surrounded by near misses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import UNLIMITED, Product
from mage_envs.games.webshop.reward import count_options, has_attribute, lower_texts, normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.shop import Shop

SEEN = 20
"""Number of results for the instruction among which near misses count."""
NEAR = 0.33
"""Minimum reward of a near miss."""
_PRODUCTS, _PARTS = 1 << 12, 1 << 16
"""Number of cached products and of cached parts of rewards per buyer."""
Search = Callable[[str], Sequence[int]]
"""Function that returns the catalogue positions of the hits for a query, best first."""
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
    """Findings of a scripted buyer about a goal."""

    goal_id: str
    split: str
    reward: float
    """Reward of the target with the wanted options; 1.0 is success."""
    rank: int
    """Rank of the target for the instruction as the query, from 1, or 0 if it is not among the results."""
    query: str
    """First scripted query that finds the target, or an empty string if none does."""
    by_words: bool
    """True if that query consists of words of the goal, not of the target's whole title or text."""
    near_misses: int
    """Number of products among the first `SEEN` results for the instruction with a reward from `NEAR` to below 1."""
    alternatives: int
    """Number of products except the target with full reward, among all results of the scripted queries."""

    @property
    def holds(self) -> bool:
        """True if the goal can be reached with full reward."""
        return self.reward == 1.0 and bool(self.query)


class ProofSummary(NamedTuple):
    """Statistics over many proofs. Fields are shares of goals in [0, 1] unless stated otherwise."""

    goals: int
    """Number of goals."""
    holding: float
    """Share of goals that can be reached with full reward."""
    by_words: float
    """Share of goals for which words of the goal find the target or another product of full reward."""
    beyond_first_page: float
    """Share of goals with a target that is not among the first ten results for the instruction."""
    near_missed: float
    """Share of goals with at least five near misses."""
    alternatives: float
    """Mean number of other products with full reward."""


def prove(shop: Shop, goals: Iterable[Goal]) -> Iterator[Proof]:
    """Return an iterator over the proofs of the goals (about 2 ms per goal)."""
    buyer = Buyer(shop)
    return (proof_of(shop, goal, buyer, shop.search) for goal in goals)


def summary(proofs: Sequence[Proof]) -> ProofSummary:
    """Return the statistics over the proofs. Raises ValueError if there are none."""
    if not proofs:
        raise ValueError("The list of proofs is empty; it must have at least one proof.")
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
    """Return the reward of buying the product with the options that satisfy the goal best.

    Args:
        shop: The shop, which computes the reward.
    """
    choices: dict[str, str] = {}
    for option in goal.options:
        for axis, values in product.options.items():
            if axis not in choices and (value := _meeting(values, str(option))) is not None:
                choices[axis] = value
                break
    return shop.score(product, goal, choices).total


class Buyer:
    """Computation of `best_reward` with cached parts. The goals of a family share nearly all of them."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._product = lru_cache(_PRODUCTS)(shop.catalogue.product)
        self._price = lru_cache(_PARTS)(lambda position: self._product(position).price(shop.seed))
        self._texts = lru_cache(_PRODUCTS)(self._read)
        self._has = lru_cache(_PARTS)(self._has_attribute)
        self._factor = lru_cache(_PARTS)(self._type_factor)
        self._choices = lru_cache(_PARTS)(self._matching_values)

    def reward(self, position: int, goal: Goal) -> float:
        """Return the reward of buying the product at a position with the options that satisfy the goal best."""
        requirement_count = sum(self._has(position, attribute) for attribute in goal.attributes)
        requirement_count += self._count_options(position, goal) + self._affords(position, goal)
        return requirement_count / (len(goal.attributes) + len(goal.options) + 1) * self._like(position, goal)

    def is_satisfied(self, position: int, goal: Goal) -> bool:
        """Return True if the reward is 1.0. This is faster than `reward`."""
        # The cheap conditions come first.
        return (
            self._affords(position, goal)
            and all(self._has(position, attribute) for attribute in goal.attributes)
            and self._count_options(position, goal) == len(goal.options)
            and self._like(position, goal) == 1.0
        )

    def _count_options(self, position: int, goal: Goal) -> int:
        choices: dict[str, str] = {}
        for option in goal.options:
            for axis, value in self._choices(position, str(option)):
                if axis not in choices:
                    choices[axis] = value
                    break
        return count_options(choices.values(), goal.options)

    def _affords(self, position: int, goal: Goal) -> bool:
        return self._price(position) <= goal.price_upper

    def _like(self, position: int, goal: Goal) -> float:
        return self._factor(position, goal.query, goal.product_category, goal.title)

    def _has_attribute(self, position: int, attribute: str) -> bool:
        return has_attribute(self._product(position), attribute, self._texts(position))

    def _read(self, position: int) -> tuple[str, str, str]:
        return lower_texts(self._product(position))

    def _type_factor(self, position: int, query: str, product_category: str, title: str) -> float:
        # The factor depends on three fields of the goal alone. Reward needs an attribute, because it divides by them.
        goal = _NOTHING._replace(attributes=("",), query=query, product_category=product_category, title=title)
        return self._shop.score(self._product(position), goal, {}).r_type

    def _matching_values(self, position: int, option: str) -> list[tuple[str, str]]:
        """Return (axis, value) for each axis with a value that matches the wanted one in the shop."""
        options = self._product(position).options.items()
        return [(axis, value) for axis, values in options if (value := _meeting(values, option)) is not None]


def _meeting(values: Sequence[str], option: str) -> str | None:
    """Return the wanted value or the first one that matches it in the shop, or None if no value matches."""
    if option in values:
        return option
    plain = normalize_colour(option)
    return next((value for value in values if matches(normalize_colour(value), plain)), None)


def proof_of(shop: Shop, goal: Goal, buyer: Buyer, search: Search) -> Proof:
    """Return the findings of a scripted buyer about a goal.

    Args:
        buyer: Cached rewards of that shop.
        search: Function that returns the same results as the shop's search.

    Raises:
        ValueError: If the catalogue does not contain the goal's product.
    """
    target = shop.catalogue.find(goal.asin)
    if target is None:
        raise ValueError(f"Goal {goal.id!r} is for {goal.asin!r}, which the catalogue does not have.")
    hits = search(goal.instruction)
    rank = hits.index(target) + 1 if target in hits else 0
    query, by_words, looked_at = goal.instruction if rank else "", rank > 0, dict.fromkeys(hits)
    # The title and the whole text come last: a buyer cannot know them, but they prove that the target is reachable.
    if not rank:
        product = shop.catalogue.product(target)
        for words in (*_queries(goal), product.title, product.search_text()):
            results = search(words)
            looked_at |= dict.fromkeys(results)
            if target in results:
                query, by_words = words, words not in (product.title, product.search_text())
                break
    return Proof(
        goal_id=goal.id,
        split=goal.split,
        reward=best_reward(shop, shop.catalogue.product(target), goal),
        rank=rank,
        query=query,
        by_words=by_words,
        near_misses=sum(NEAR <= buyer.reward(position, goal) < 1.0 for position in hits[:SEEN]),
        alternatives=sum(buyer.is_satisfied(position, goal) for position in looked_at if position != target),
    )


def _queries(goal: Goal) -> Iterator[str]:
    """Yield queries for the requirements of the goal, in the shop's words."""
    requirements = [*goal.attributes, *map(str, goal.options)]
    yield " ".join([goal.query, *requirements])
    yield " ".join([goal.query, *goal.attributes])
    for word in requirements:
        yield f"{goal.query} {word}"
    yield goal.query
