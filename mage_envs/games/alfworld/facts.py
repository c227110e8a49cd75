"""The facts of a state, and the conjunctive queries of a game's grammar over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Row = tuple[str, ...]
"""Arguments of a fact, as object ids."""
Facts = dict[str, set[Row]]
"""Signature, such as `inreceptacle(object, receptacle)`, to the facts that hold."""
Binding = Mapping[str, str]
"""Placeholder, such as `r:receptacle`, to object id."""


class Condition(NamedTuple):
    """One predicate of a query."""

    signatures: tuple[str, ...]
    """Signatures that fit the parameter types, in the engine's order."""
    placeholders: tuple[str, ...]


Query = Sequence[Condition]


def signature(predicate: str, types: Sequence[str]) -> str:
    """Return the key of the facts of one predicate with arguments of these types."""
    return f"{predicate}({', '.join(types)})"


def matches(query: Query, facts: Facts, bound: Binding) -> Iterator[dict[str, str]]:
    """Yield every way to bind the query's placeholders, in textworld's order.

    Two placeholders never share an object.

    Args:
        query: Conditions that must hold together.
        bound: Placeholders that are bound already.
    """
    return _extend_bindings(query, 0, facts, dict(bound), frozenset(bound.values()))


def _extend_bindings(
    query: Query, depth: int, facts: Facts, bound: dict[str, str], used: frozenset[str]
) -> Iterator[dict[str, str]]:
    if depth == len(query):
        yield bound
        return
    condition = query[depth]
    bound_values = [(index, bound[name]) for index, name in enumerate(condition.placeholders) if name in bound]
    for key in condition.signatures:
        rows = facts.get(key)
        if not rows:
            continue
        if len(bound_values) == len(condition.placeholders):
            # All placeholders are bound: one lookup replaces a scan of all rows.
            if tuple(value for _, value in bound_values) in rows:
                yield from _extend_bindings(query, depth + 1, facts, bound, used)
            continue
        matching_rows = [row for row in rows if all(row[index] == value for index, value in bound_values)]
        # Sorted, because texts list the matches in this order, and a set has none.
        for row in sorted(matching_rows):
            new_bindings = _new_bindings(condition.placeholders, row, bound, used)
            if new_bindings is not None:
                yield from _extend_bindings(
                    query, depth + 1, facts, {**bound, **new_bindings}, used.union(new_bindings.values())
                )


def _new_bindings(
    placeholders: Sequence[str], row: Row, bound: Mapping[str, str], used: frozenset[str]
) -> dict[str, str] | None:
    """Return the new bindings of `row`, or None if it would bind an object twice."""
    bindings: dict[str, str] = {}
    for name, value in zip(placeholders, row):
        if name in bound:
            continue
        if name in bindings:
            if bindings[name] != value:
                return None
        elif value in used or value in bindings.values():
            return None
        else:
            bindings[name] = value
    return bindings
