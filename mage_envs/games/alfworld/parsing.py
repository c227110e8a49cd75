"""A game's grammar, read once by textworld's own parsers into plain lists that JSON can store."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld.facts import signature

Json = Any
"""Lists, mappings with string keys, strings, numbers, None."""


class GrammarParser:
    """A parser of grammars for games of one type hierarchy."""

    def __init__(self, types: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Build the hierarchy. `types` has (name, names of its supertypes), as the task lists them."""
        logic = packages.import_engine("textworld.logic")
        self._hierarchy = logic.TypeHierarchy()
        added_types: set[str] = set()
        for name, parents in types:
            if name not in added_types:
                self._hierarchy.add(logic.Type(name, parents))
                added_types.add(name)

    def parse(self, text: str) -> dict[str, Json]:
        """Return the rules and actions of a grammar.

        `rules` maps a name to [[condition, symbols], ...]. `actions` maps a name to [command symbols, feedback
        symbols].

        Raises the parsers' own errors, and KeyError if the domain does not have a type.
        """
        # All threads share the cached parsers, which keep their state in attributes.
        with packages.lock:
            written, actions = _document(text)
            return {
                "rules": {
                    name: [
                        [self._query(way.get("condition") or None), self._symbols(_symbols(way["rhs"]))] for way in ways
                    ]
                    for name, ways in written.items()
                },
                "actions": {name: [self._symbols(_symbols(part)) for part in parts] for name, parts in actions.items()},
            }

    def _symbols(self, symbols: Sequence[Sequence[Any]]) -> list[Json]:
        return [
            ["each", *self._symbols([symbol[1]]), self._query(symbol[2]), symbol[3]]
            if symbol[0] == "each"
            else list(symbol)
            for symbol in symbols
        ]

    def _query(self, text: str | None) -> Json:
        if text is None:
            return None
        conditions = []
        for predicate, parameters in _query(text):
            types = [self._hierarchy.get(kind) for _, kind in parameters]
            fitting = [
                signature(predicate, [kind.name for kind in kinds]) for kinds in self._hierarchy.multi_subtypes(types)
            ]
            conditions.append([fitting, [f"{name}:{kind}" for name, kind in parameters]])
        return conditions


def _document(text: str) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    """Return (rules as in the file, action to its (command template, feedback))."""
    nodes = packages.import_engine("textworld.envs.pddl.logic.model")
    rules: dict[str, Any] = {}
    actions = {}
    for part in _document_parser().parse(text, rule_name="pddlStart").parts:
        if isinstance(part, nodes.ActionTypeNode):
            actions[part.name.lower()] = (part.template.template[1:-1], part.feedback.name[1:-1])
            if part.grammar:
                # The grammar of an action may have comment lines, which JSON does not allow.
                lines = _block(part.grammar.code).split("\n")
                rules.update(json.loads("\n".join(line for line in lines if not line.lstrip().startswith("#"))))
        else:
            rules.update(json.loads(_block(part.code)))
    return rules, actions


def _block(code: str) -> str:
    # A block is enclosed in three quotation marks on each side.
    return textwrap.dedent(code[3:-3])


@cache
def _document_parser() -> Any:
    semantics = packages.import_engine("textworld.envs.pddl.logic.model").PddlLogicModelBuilderSemantics()
    parser = packages.import_engine("textworld.envs.pddl.logic.parser").PddlLogicParser
    return parser(semantics=semantics, parseinfo=True)


@cache
def _text_parser() -> Any:
    semantics = packages.import_engine("textworld.envs.pddl.textgen.model").CSGModelBuilderSemantics()
    return packages.import_engine("textworld.envs.pddl.textgen.parser").CSGParser(semantics=semantics, parseinfo=True)


# Games of one release differ in a single text, so nearly all texts are in the cache already.
@lru_cache(maxsize=4096)
def _symbols(text: str) -> tuple[tuple[Any, ...], ...]:
    """Return the symbols of one text."""
    return tuple(_symbol(node) for node in _text_parser().parse(text, rule_name="symbols"))


def _symbol(node: Any) -> tuple[Any, ...]:
    nodes = packages.import_engine("textworld.envs.pddl.textgen.model")
    if isinstance(node, nodes.ListSymbol):
        kind, body, query, _ = _symbol(node.symbol)
        return kind, body, query, True
    if isinstance(node, nodes.ConditionalSymbol):
        return "each", _symbol(node.expression), node.given, False
    if isinstance(node, nodes.NonterminalSymbol):
        return "rule", node.symbol
    if isinstance(node, nodes.EvalSymbol):
        return "value", node.statement
    return "text", node.literal


@lru_cache(maxsize=1024)
def _query(text: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return (predicate, ((placeholder, type), ...)) of each condition of a query."""
    rule = packages.import_engine("textworld.logic").Rule.parse_conjunctive_query(text)
    return tuple(
        (condition.name, tuple((parameter.name, parameter.type) for parameter in condition.parameters))
        for condition in rule.preconditions
    )
