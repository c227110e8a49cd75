"""Proves goals against the shop itself: reachable, worth full reward, and surrounded by near misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product, Standing
from mage_envs.games.webshop.search.colours import normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.shop import Shop

SEEN = 20
"""Results of the instruction's own query among which near misses count."""
NEAR = 0.33
"""Reward from which on a product that falls short is a near miss."""


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
    """Whether that query has only words of the goal, not those of the target's title."""
    near_misses: int
    """Products among the first `SEEN` results for the instruction with a reward from `NEAR` to below 1."""
    alternatives: int
    """Products but the target with full reward, among all results that were looked at."""

    @property
    def holds(self) -> bool:
        """Whether the goal is reachable with full reward."""
        return self.reward == 1.0 and bool(self.query)

    @property
    def standing(self) -> Standing:
        """What goals record of it."""
        return Standing(self.rank, self.near_misses, self.alternatives)


class Summary(NamedTuple):
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
    """The proof of each goal; about 3 ms each."""
    return (proof_of(shop, goal) for goal in goals)


def summary(proofs: Sequence[Proof]) -> Summary:
    """What the proofs say together. Raises ValueError where there are none."""
    if not proofs:
        raise ValueError("There are no proofs to sum up; give at least one goal.")
    count = len(proofs)
    return Summary(
        count,
        sum(proof.holds for proof in proofs) / count,
        sum(proof.by_words or proof.alternatives > 0 for proof in proofs) / count,
        sum(not 1 <= proof.rank <= 10 for proof in proofs) / count,
        sum(proof.near_misses >= 5 for proof in proofs) / count,
        sum(proof.alternatives for proof in proofs) / count,
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


def _meeting(values: Sequence[str], wanted: str) -> str | None:
    """The value that the shop takes for the wanted one: itself, or one that matches it."""
    if wanted in values:
        return wanted
    plain = normalize_colour(wanted)
    return next((value for value in values if matches(normalize_colour(value), plain)), None)


def proof_of(shop: Shop, goal: Goal) -> Proof:
    """What a scripted buyer finds out about a goal."""
    target = shop.catalogue.find(goal.asin)
    if target is None:
        raise ValueError(f"Goal {goal.id!r} is for {goal.asin!r}, which the catalogue does not have.")
    own = shop.search(goal.instruction)
    rank = own.index(target) + 1 if target in own else 0
    query, by_words, looked_at = goal.instruction if rank else "", rank > 0, dict.fromkeys(own)
    if not rank:
        for words in _queries(goal):
            results = shop.search(words)
            looked_at |= dict.fromkeys(results)
            if target in results:
                query, by_words = words, words != goal.title
                break
    rewards = {position: best_reward(shop, shop.catalogue.product(position), goal) for position in looked_at}
    return Proof(
        goal.id, goal.split, best_reward(shop, shop.catalogue.product(target), goal), rank, query, by_words,
        sum(NEAR <= rewards[position] < 1.0 for position in own[:SEEN]),
        sum(reward == 1.0 for position, reward in rewards.items() if position != target),
    )  # fmt: skip


def _queries(goal: Goal) -> Iterator[str]:
    """From what the instruction asks for, in the shop's words, to the target's title."""
    wanted = [*goal.attributes, *map(str, goal.options)]
    yield " ".join([goal.query, *wanted])
    yield " ".join([goal.query, *goal.attributes])
    for word in wanted:
        yield f"{goal.query} {word}"
    yield goal.query
    yield goal.title
