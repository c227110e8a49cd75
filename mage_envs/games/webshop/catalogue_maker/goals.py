"""Goals of a family's products, with requirements that the near duplicates fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mage_envs.games.webshop.catalogue_maker.draws import Draws, Weighted
from mage_envs.games.webshop.catalogue_maker.family import Member, limit_above
from mage_envs.games.webshop.catalogue_maker.instructions import HELD_OUT, USUAL, instruction
from mage_envs.games.webshop.catalogue_maker.listing import Listing
from mage_envs.games.webshop.products import UNLIMITED

PER_PRODUCT = 2
"""Number of goals per product."""
_NEAR_MISSES, _ALTERNATIVES = 5, 4
"""Minimum number of members that fail a goal, and maximum number of other members that satisfy it."""
_ATTRIBUTES = Weighted([(66, 1), (20, 2), (10, 3), (4, 4)])
_OPTIONS = Weighted([(46, 0), (36, 1), (18, 2)])
_PLACES = Weighted([(1, 2), (2, 3), (3, 4)])
"""Weighted places of the price limit: as in the original, the larger of two of the next four multiples of ten."""
_RARER = 1.0 / 3.0
"""Exponent of the draw for a disputed attribute, which triples its weight."""
_OWN = 0.8
"""Probability that a goal wants the attribute in which its product differs from the family's seed."""
_UNSAID = frozenset({"single", "unscented"})
"""Option values that no goal wants, because the phrases of their options do not fit them."""
_UNLIMITED = 1.0 / 3.0
"""Share of the goals without a price limit. As in the original, they have no price clause."""
_HIGHEST = 990.0
"""Highest price limit in dollars, as in the original. A goal for a product that costs more has no limit."""
_TRIES = 6
"""Maximum number of draws of the requirements."""


class CatalogueGoal(NamedTuple):
    """A goal with its structure. `text` is the instruction that the shop shows."""

    id: str
    asin: str
    family: int
    split: str
    query: str
    instruction: str
    """Instruction without the price clause."""
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """(axis, value) pairs."""
    price_upper: float
    places: tuple[str, ...]
    """Place in the product's texts that mentions each wanted attribute."""
    near_misses: int
    """Number of products of the family that fail a requirement."""
    alternatives: int
    """Number of other products of the family that satisfy all requirements."""

    @property
    def text(self) -> str:
        """Instruction with the price clause in the original's wording, if the goal has a limit."""
        if self.price_upper == UNLIMITED:
            return self.instruction
        return f"{self.instruction}, and price lower than {self.price_upper:.2f} dollars"


class Wish(NamedTuple):
    """The requirements of a goal without its instruction."""

    attributes: tuple[int, ...]
    """Indices into the product's attributes."""
    options: tuple[tuple[str, str, str], ...]
    """(axis, value, class) of each wanted option."""
    limit: float
    near_misses: int
    alternatives: int


def goals(
    deal: Callable[[int], Draws],
    number: int,
    split: str,
    members: list[Member],
    listings: list[Listing],
    typos: float,
) -> list[CatalogueGoal]:
    """Return `PER_PRODUCT` goals for each product of a family.

    Args:
        deal: Function that returns the draws of the goal with that number in the family.
        typos: Probability of a typing error in an instruction.
    """
    family_goals: list[CatalogueGoal] = []
    for index in range(len(members)):
        goal: CatalogueGoal | None = None
        for _ in range(PER_PRODUCT):
            goal = _goal(deal(len(family_goals)), number, split, members, listings, typos, index, goal)
            family_goals.append(goal)
    return family_goals


def _goal(
    draws: Draws,
    number: int,
    split: str,
    members: list[Member],
    listings: list[Listing],
    typos: float,
    index: int,
    first_goal: CatalogueGoal | None,
) -> CatalogueGoal:
    """Return a goal of a product.

    Args:
        typos: Probability of a typing error in the instruction.
        index: Index of the product among the members.
        first_goal: The product's first goal, which must have other requirements, or None.
    """
    member, listing = members[index], listings[index]
    asin, order = str(listing.raw["asin"]), 0 if first_goal is None else 1
    wish = _wish(draws, member, members, first_goal)
    attributes = [member.attributes[attribute] for attribute in wish.attributes]
    options = tuple((axis, value) for axis, value, _ in wish.options)
    manner = HELD_OUT if split == "ood_phrase" else USUAL
    return CatalogueGoal(
        id=f"{asin}-m{order}",
        asin=asin,
        family=number,
        split=split,
        query=member.kind.name,
        instruction=instruction(draws, member.kind, attributes, options, manner, typos),
        attributes=tuple(attribute.name for attribute in attributes),
        options=options,
        price_upper=wish.limit,
        places=tuple(listing.places[attribute.name] for attribute in attributes),
        near_misses=wish.near_misses,
        alternatives=wish.alternatives,
    )


def _wish(draws: Draws, member: Member, members: list[Member], first_goal: CatalogueGoal | None) -> Wish:
    """Return the first wish that is sharp enough, else the sharpest. It never equals the wish of `first_goal`."""
    rank = draws.choose_weighted(_PLACES)
    limit = limit_above(member.high, rank)
    if draws.chance(_UNLIMITED) or limit > _HIGHEST:
        limit = UNLIMITED
    best: Wish | None = None
    for _ in range(_TRIES):
        wish = _evaluate_wish(member, members, _choose_attributes(draws, member), _choose_options(draws, member), limit)
        wish = _sharpen(draws, member, members, wish)
        if first_goal is not None and _wants_the_same(member, wish, first_goal):
            unused = [index for index in range(len(member.attributes)) if index not in wish.attributes]
            wish = _evaluate_wish(member, members, (*wish.attributes, draws.choice(unused)), wish.options, limit)
        # Near misses and alternatives have a constant sum, so comparing one of them is enough.
        if best is None or wish.near_misses > best.near_misses:
            best = wish
        if _is_sharp(best):
            break
    assert best is not None
    return best


def _wants_the_same(member: Member, wish: Wish, first_goal: CatalogueGoal) -> bool:
    names = {member.attributes[index].name for index in wish.attributes}
    options = tuple((axis, value) for axis, value, _ in wish.options)
    return names == set(first_goal.attributes) and options == first_goal.options


def _evaluate_wish(
    member: Member,
    members: list[Member],
    attributes: tuple[int, ...],
    options: tuple[tuple[str, str, str], ...],
    limit: float,
) -> Wish:
    """Return a wish with the numbers of members that fail and that satisfy it."""
    needed = {member.attributes[index].name for index in attributes} | {option_class for _, _, option_class in options}
    count = sum(rival.low <= limit and needed <= rival.offers for rival in members)
    return Wish(
        attributes=attributes,
        options=options,
        limit=limit,
        near_misses=len(members) - count,
        alternatives=count - 1,
    )


def _sharpen(draws: Draws, member: Member, members: list[Member], wish: Wish) -> Wish:
    """Return the wish with more disputed attributes, until enough members fail it."""
    if _is_sharp(wish):
        return wish
    disputed = [index for index, attribute in enumerate(member.attributes) if _is_disputed(member, attribute.name)]
    for index in draws.permute(disputed):
        if index not in wish.attributes and not _is_sharp(wish):
            disputed_part = tuple(wish_index for wish_index in wish.attributes if wish_index in disputed)
            wish = _evaluate_wish(member, members, (*disputed_part, index), wish.options, wish.limit)
    return wish


def _is_sharp(wish: Wish) -> bool:
    return wish.near_misses >= _NEAR_MISSES and wish.alternatives <= _ALTERNATIVES


def _is_disputed(member: Member, attribute: str) -> bool:
    """Return True if members of the family differ in the attribute."""
    return attribute in member.exposed or attribute == member.change[1]


def _choose_attributes(draws: Draws, member: Member) -> tuple[int, ...]:
    """Return the indices of wanted attributes. Disputed ones are more likely.

    The position of an attribute in the texts does not matter, so that the rank of the product is no trace of the goal.
    """
    count = draws.choose_weighted(_ATTRIBUTES)
    ranked = sorted(
        [
            (draws.uniform() ** _RARER if _is_disputed(member, attribute.name) else draws.uniform(), index)
            for index, attribute in enumerate(member.attributes)
        ]
    )
    indices = [index for _, index in ranked[-count:]]
    if member.change[0] == "attribute" and draws.chance(_OWN):
        indices[-1] = next(index for _, index in ranked if member.attributes[index].name == member.change[1])
    return tuple(dict.fromkeys(indices))


def _choose_options(draws: Draws, member: Member) -> tuple[tuple[str, str, str], ...]:
    """Return wanted options, at most one per axis. If an axis has exposed values, half of the draws are among them."""
    options = []
    for axis, values in draws.sample(member.options, draws.choose_weighted(_OPTIONS)):
        plain = [value for value in values if value.plain and value.text not in _UNSAID]
        disputed = [value for value in plain if value.classes[0] in member.exposed]
        if plain:
            value = draws.choice(disputed if disputed and draws.chance(0.5) else plain)
            options.append((axis.name, value.text, value.classes[0]))
    return tuple(options)
