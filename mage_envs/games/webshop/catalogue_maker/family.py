"""Families of products: a seed product, and near duplicates that differ from it in exactly one respect."""

from __future__ import annotations

from typing import NamedTuple

from mage_envs.games.webshop.catalogue_maker.draws import Draws, Weighted
from mage_envs.games.webshop.catalogue_maker.tables import Attribute, Axis, Type
from mage_envs.games.webshop.products import NO_PRICE

SMALLEST, LARGEST = 7, 13
"""Number of members of a family: a seed and 6 to 12 near duplicates, so that at least five can fail a goal."""
_CONTESTED = 2
"""Number of attribute groups per family in which near duplicates differ preferably."""
_LONGEST_LIST = 60
"""Maximum number of values per option."""
_HIGHEST = 900.0
"""Maximum price in dollars. Above 980 dollars no price limit exists, and an expensive near duplicate must fit below."""
_KINDS = Weighted([(46, "attribute"), (14, "option"), (9, "axis"), (8, "price"), (13, "brand"), (10, "type")])


class Value(NamedTuple):
    """An option value with its classes. Values of one class match in the shop."""

    text: str
    classes: tuple[str, ...]
    plain: bool = True
    """True if a goal may want the value. Other values are noise."""


class Member(NamedTuple):
    """A product without its texts."""

    kind: Type
    brand: str
    attributes: tuple[Attribute, ...]
    """One attribute per group of the type, in order."""
    options: tuple[tuple[Axis, tuple[Value, ...]], ...]
    low: float
    high: float
    """Highest price in dollars; it equals `low` unless the price is a range."""
    priced: bool
    """True if the page states the price."""
    change: tuple[str, str]
    """Difference from the seed: (kind of change, changed value)."""
    offers: frozenset[str]
    """Names of the attributes and classes of the option values."""
    exposed: tuple[str, ...]
    """Attributes and classes in which the near duplicates preferably differ from the seed."""


def family(draws: Draws, kind: Type, sibling: Type | None, count: int) -> list[Member]:
    """Return the members of a family in random order.

    Args:
        sibling: A similar type, which one member may have, or None.
    """
    seed, contested = _seed(draws, kind)
    members = [seed]
    for change in _plan(draws, seed, sibling, count - 1):
        members.append(_change_member(draws, seed, members, contested, sibling, change))
    return draws.permute(members)


def limit_above(price: float, rank: int) -> float:
    """Return the `rank`-th multiple of ten (from 1) strictly above the price."""
    return 10.0 * (price // 10 + rank)


def _seed(draws: Draws, kind: Type) -> tuple[Member, list[int]]:
    attributes = tuple(draws.choice(group.values) for group in kind.groups)
    # A group with two values could supply only one near duplicate.
    wide = [index for index, group in enumerate(kind.groups) if len(group.values) > 2]
    contested = draws.sample(wide, _CONTESTED)
    options = tuple((axis, _values(draws, axis)) for axis in kind.axes if draws.chance(0.88))
    low, high, priced = _price(draws, kind.price)
    exposed = [attributes[index].name for index in contested]
    for _, values in options[:2]:
        exposed.append(draws.choice(values).classes[0])
    member = Member(
        kind=kind,
        brand=draws.choice(kind.department.brands),
        attributes=attributes,
        options=options,
        low=low,
        high=high,
        priced=priced,
        change=("seed", ""),
        offers=frozenset(),
        exposed=tuple(exposed),
    )
    return _offering(member), contested


def _offering(member: Member) -> Member:
    offers = [attribute.name for attribute in member.attributes]
    for _, values in member.options:
        for value in values:
            offers += value.classes
    return member._replace(offers=frozenset(offers))


def _price(draws: Draws, median: float) -> tuple[float, float, bool]:
    """Return (lowest price, highest price, True if the page states it)."""
    # Division by 1.7 leaves room for a range, whose upper end is at most 1.6 times the lower one.
    low = _tag(draws, max(4.0, min(draws.log_normal(median, 0.38), _HIGHEST / 1.7)))
    mode = draws.uniform()
    if mode < 0.12:
        return NO_PRICE, NO_PRICE, False
    return (low, _tag(draws, low * (1.1 + 0.5 * draws.uniform())), True) if mode < 0.42 else (low, low, True)


def _tag(draws: Draws, amount: float) -> float:
    """Return a typical shop price with the same whole dollars as the amount."""
    return int(amount) + draws.choice((0.99, 0.99, 0.99, 0.95, 0.49, 0.5, 0.0))


def _values(draws: Draws, axis: Axis) -> tuple[Value, ...]:
    """Return values from the axis's pool, with the noise of scraped lists.

    Sizes and quantities are a consecutive run. Other values are a random sample.
    """
    pool = axis.values
    if axis.name in {"size", "item package quantity"}:
        count = draws.between(min(3, len(pool)), len(pool))
        start = draws.below(len(pool) - count + 1)
        return tuple(Value(text, (class_name,)) for text, class_name in pool[start : start + count])
    # Most products have at most 12 values; a few have the whole pool.
    longest = min(len(pool), 12) if draws.chance(0.93) else len(pool)
    values = [
        Value(text, (class_name,)) for text, class_name in draws.sample(pool, draws.between(min(4, longest), longest))
    ]
    noise = draws.uniform()
    if noise < 0.06:
        for _ in range(draws.between(1, 14)):
            first_value, second_value = draws.choice(values), draws.choice(values)
            if first_value.plain and second_value.plain and first_value.classes != second_value.classes:
                values.append(
                    Value(f"{first_value.text}/{second_value.text}", first_value.classes + second_value.classes, False)
                )
    elif noise < 0.09:
        value = draws.choice(values)
        values.append(Value(f"{value.text} [new]", value.classes, False))
    elif noise < 0.13:
        values.insert(draws.below(len(values)), draws.choice(values))
    return tuple(values[:_LONGEST_LIST])


def _plan(draws: Draws, seed: Member, sibling: Type | None, count: int) -> list[str]:
    """Return the kinds of change: five that always distinguish a duplicate from the seed, then random ones."""
    certain_changes = ["attribute", "attribute", "price", "attribute", "option" if seed.options else "attribute"]
    random_changes: list[str] = []
    while len(certain_changes) + len(random_changes) < count:
        kind = draws.choose_weighted(_KINDS)
        if (kind in {"option", "axis"} and not seed.options) or (kind == "type" and sibling is None):
            kind = "attribute"
        # These kinds have few distinct changes, so each appears at most once among the random ones.
        if kind in {"brand", "type", "axis", "price"} and kind in random_changes:
            kind = "attribute"
        random_changes.append(kind)
    return certain_changes[:count] + random_changes


def _change_member(
    draws: Draws, seed: Member, members: list[Member], contested: list[int], sibling: Type | None, change: str
) -> Member:
    """Return the seed with one change. The change is an attribute if no new change of that kind is left."""
    used_changes = {member.change for member in members}
    if change == "option":
        changed = _remove_value(draws, seed, used_changes)
        if changed is not None:
            return changed
    if change == "axis":
        axis, _ = draws.choice(seed.options)
        if ("axis", axis.name) not in used_changes:
            remaining_options = tuple(option for option in seed.options if option[0] is not axis)
            return _offering(seed._replace(options=remaining_options, change=("axis", axis.name)))
    if change == "price":
        # The price is above the fourth multiple of ten over the seed's price, the highest limit of a goal.
        low = _tag(draws, limit_above(seed.high, 4) * (1.0 + 0.25 * draws.uniform() ** 2) + 1.0)
        return seed._replace(low=low, high=low, priced=True, change=("price", f"{low}"))
    if change == "brand":
        brand = draws.choice([brand for brand in seed.kind.department.brands if brand != seed.brand])
        return seed._replace(brand=brand, change=("brand", brand))
    if change == "type" and sibling is not None:
        return _change_type(draws, seed, sibling)
    return _change_attribute(draws, seed, used_changes, contested)


def _change_attribute(draws: Draws, seed: Member, used_changes: set[tuple[str, str]], contested: list[int]) -> Member:
    # Contested groups come first, so that several duplicates differ in the attribute that a goal is likely to want.
    indices = draws.permute(contested) + draws.permute(range(len(seed.attributes)))
    for index in indices:
        replacements = [
            replacement
            for replacement in seed.kind.groups[index].values
            if replacement is not seed.attributes[index] and ("attribute", replacement.name) not in used_changes
        ]
        if replacements:
            replacement = draws.choice(replacements)
            attributes = (*seed.attributes[:index], replacement, *seed.attributes[index + 1 :])
            return _offering(seed._replace(attributes=attributes, change=("attribute", replacement.name)))
    raise RuntimeError(f"the type {seed.kind.name!r} must have more attributes for a family of {LARGEST}")


def _remove_value(draws: Draws, seed: Member, used_changes: set[tuple[str, str]]) -> Member | None:
    """Return the seed without one class of an option's values, or None if no class can be removed.

    Exposed classes are tried first.
    """
    # Classes are written as `axis:value`, unlike attributes.
    classes = [class_name for class_name in seed.exposed if ":" in class_name]
    for _, values in draws.permute(seed.options):
        classes += [class_name for value in draws.sample(values, 2) for class_name in value.classes]
    for removed_class in classes:
        if ("option", removed_class) in used_changes:
            continue
        options = tuple(
            (axis, tuple(value for value in values if removed_class not in value.classes))
            for axis, values in seed.options
        )
        if all(values for _, values in options):
            return _offering(seed._replace(options=options, change=("option", removed_class)))
    return None


def _change_type(draws: Draws, seed: Member, kind: Type) -> Member:
    """Return a product of another type with the seed's values for all attribute groups and axes that it shares."""
    attribute_by_group = dict(zip(seed.kind.groups, seed.attributes, strict=True))
    attributes = tuple(
        attribute_by_group[group] if group in attribute_by_group else draws.choice(group.values)
        for group in kind.groups
    )
    values_by_axis = dict(seed.options)
    options = tuple(
        (axis, values_by_axis[axis] if axis in values_by_axis else _values(draws, axis)) for axis in kind.axes
    )
    return _offering(seed._replace(kind=kind, attributes=attributes, options=options, change=("type", kind.name)))
