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
        facts: Facts of the state.
        bound: Placeholders that are bound already.
    """
    return _extended(query, 0, facts, dict(bound), frozenset(bound.values()))


def _extended(
    query: Query, depth: int, facts: Facts, bound: dict[str, str], used: frozenset[str]
) -> Iterator[dict[str, str]]:
    if depth == len(query):
        yield bound
        return
    condition = query[depth]
    known = [(index, bound[name]) for index, name in enumerate(condition.placeholders) if name in bound]
    for key in condition.signatures:
        rows = facts.get(key)
        if not rows:
            continue
        if len(known) == len(condition.placeholders):
            # All placeholders are bound: one lookup replaces a scan of all rows.
            if tuple(value for _, value in known) in rows:
                yield from _extended(query, depth + 1, facts, bound, used)
            continue
        fitting = [row for row in rows if all(row[index] == value for index, value in known)]
        # Sorted, because texts list the matches in this order, and a set has none.
        for row in sorted(fitting):
            added = _added(condition.placeholders, row, bound, used)
            if added is not None:
                yield from _extended(query, depth + 1, facts, {**bound, **added}, used.union(added.values()))


def _added(
    placeholders: Sequence[str], row: Row, bound: Mapping[str, str], used: frozenset[str]
) -> dict[str, str] | None:
    """Return the new bindings of `row`, or None if it would bind an object twice."""
    added: dict[str, str] = {}
    for name, value in zip(placeholders, row):
        if name in bound:
            continue
        if name in added:
            if added[name] != value:
                return None
        elif value in used or value in added.values():
            return None
        else:
            added[name] = value
    return added
