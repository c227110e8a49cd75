"""The text grammar of a game, evaluated without parsing anything during the game.

In textworld's grammar, a game file may use any Python expression. Here only the expressions of the official grammars
are supported: attributes of an object (`o.name`), texts, `+` and `or`. So a game file cannot execute code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.games.alfworld.facts import Condition, Facts, Query, matches

ATTRIBUTES = ("id", "name", "type", "definite", "indefinite")


class Entity(NamedTuple):
    """An object of the game, as expressions use it."""

    id: str
    name: str
    type: str
    definite: str = "the"
    indefinite: str = "a"

    def __str__(self) -> str:
        return self.name


class Context(NamedTuple):
    """The objects that the names in a text refer to."""

    bound: Mapping[str, str]
    """Placeholder to object id."""
    scope: Mapping[str, Entity]
    """Name of a placeholder to its object."""


class GrammarError(ValueError):
    """Error for a grammar that has an unsupported expression, or that does not have a required text."""


class Rule(NamedTuple):
    """One way to write a named part."""

    condition: Query | None
    symbols: Sequence[Symbol]


class Literal(NamedTuple):
    """Plain text."""

    words: str

    def text(self, grammar: Grammar, facts: Facts, context: Context) -> str:
        return self.words

    def queries(self, grammar: Grammar, visited: set[str]) -> list[Query]:
        return []


class Named(NamedTuple):
    """`#name#`: the first rule of that name whose condition holds."""

    name: str

    def text(self, grammar: Grammar, facts: Facts, context: Context) -> str:
        for condition, symbols in grammar.rules.get(self.name, ()):
            # Only the existence of a match counts. Its bindings are not visible in the rule.
            if not condition or any(True for _ in matches(condition, facts, context.bound)):
                return grammar.text(symbols, facts, context)
        raise GrammarError(f"the grammar has no rule {self.name!r} that fits here")

    def queries(self, grammar: Grammar, visited: set[str]) -> list[Query]:
        # Rules may refer to each other in a cycle, so each one is visited only once.
        if self.name in visited:
            return []
        visited.add(self.name)
        rules = grammar.rules.get(self.name)
        if not rules:
            raise GrammarError(f"the grammar has no rule {self.name!r}")
        queries = [rule.condition for rule in rules if rule.condition]
        for rule in rules:
            queries += grammar.queries(rule.symbols, visited)
        return queries


class Expression(NamedTuple):
    """An expression such as `o.indefinite + ' ' + o.name`."""

    source: str
    value: Callable[[Mapping[str, Entity]], object]

    def text(self, grammar: Grammar, facts: Facts, context: Context) -> str:
        try:
            return str(self.value(context.scope))
        except (KeyError, TypeError) as error:
            raise GrammarError(f"the expression {self.source!r} has no value here ({error})") from error

    def queries(self, grammar: Grammar, visited: set[str]) -> list[Query]:
        return []


class Each(NamedTuple):
    """`{body | query}`: the body once per match of the query. In `[...]`, the matches are separated as a list."""

    body: Named | Expression
    query: Query | None
    listed: bool

    def text(self, grammar: Grammar, facts: Facts, context: Context) -> str:
        contexts = [context]
        if self.query:
            contexts = [grammar.extend(context, bound) for bound in matches(self.query, facts, context.bound)]
        texts = [self.body.text(grammar, facts, inner) for inner in contexts]
        if not self.listed:
            return "".join(texts)
        if not texts:
            return Named("list_empty").text(grammar, facts, context)
        if len(texts) == 1:
            return texts[0]
        between = Named("list_separator").text(grammar, facts, context)
        return between.join(texts[:-1]) + Named("list_last_separator").text(grammar, facts, context) + texts[-1]

    def queries(self, grammar: Grammar, visited: set[str]) -> list[Query]:
        queries = [self.query] if self.query else []
        for part in (self.body, *map(Named, ("list_empty", "list_separator", "list_last_separator") * self.listed)):
            queries += part.queries(grammar, visited)
        return queries


Symbol = Literal | Named | Expression | Each
"""A part of a text.

Its method `text` returns the text of the part in a state, as `Grammar.text` does. Its method `queries` returns the
queries that the text depends on, and adds the names of the rules that it visits to `visited`.
"""


class Grammar:
    """The rules of one game's texts, and the objects in them."""

    def __init__(self, rules: Mapping[str, Sequence[Any]], entities: Mapping[str, Entity]) -> None:
        """Read the rules, in the form of `GrammarParser.parse`."""
        self.rules = {
            name: [Rule(_query(condition), read_symbols(symbols)) for condition, symbols in ways]
            for name, ways in rules.items()
        }
        self.entities = entities

    def text(self, symbols: Sequence[Symbol], facts: Facts, context: Context) -> str:
        """Return the text of `symbols` in a state.

        Args:
            context: Objects that the names in the text refer to.

        Raises:
            GrammarError: If no rule fits, or if an expression has no value.
        """
        return "".join([symbol.text(self, facts, context) for symbol in symbols])

    def queries(self, symbols: Sequence[Symbol], visited: set[str]) -> list[Query]:
        """Return all queries of `symbols`, including those of the rules that they name."""
        return [query for symbol in symbols for query in symbol.queries(self, visited)]

    def extend(self, context: Context, bound: Mapping[str, str]) -> Context:
        """Return `context` after a match of a query."""
        new = {
            name.partition(":")[0]: self.entities[object_id]
            for name, object_id in bound.items()
            if name not in context.bound
        }
        return Context(bound, {**context.scope, **new})


def read_symbols(symbols: Sequence[Sequence[Any]]) -> list[Symbol]:
    """Return symbols from their JSON form. Raise GrammarError if an expression is not supported."""
    return [_KINDS[kind](*fields) for kind, *fields in symbols]


def _query(conditions: Sequence[Any] | None) -> Query | None:
    if conditions is None:
        return None
    return [Condition(tuple(signatures), tuple(placeholders)) for signatures, placeholders in conditions]


def _each(body: Sequence[Any], conditions: Sequence[Any] | None, listed: bool) -> Each:
    (symbol,) = read_symbols([body])
    if not isinstance(symbol, Named | Expression):
        raise GrammarError("only a rule or an expression can be repeated")
    return Each(symbol, _query(conditions), listed)


def _expression(source: str) -> Expression:
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise GrammarError(f"cannot parse the expression {source[:80]!r}") from error
    return Expression(source, _value(tree, source))


def _value(tree: ast.expr, source: str) -> Callable[[Mapping[str, Entity]], Any]:
    """Return a function of the names in scope. Raise GrammarError if the kind of expression is not supported."""
    match tree:
        case ast.Name(id=name):
            return lambda scope: scope[name]
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in ATTRIBUTES:
            index = Entity._fields.index(attribute)
            # Access by index reaches only the listed fields, never a method or a private attribute.
            return lambda scope: scope[name][index]
        case ast.Constant(value=str() as words):
            return lambda scope: words
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            left_value, right_value = _value(left, source), _value(right, source)
            return lambda scope: left_value(scope) + right_value(scope)
        case ast.BoolOp(op=ast.Or(), values=values):
            return _first_true([_value(option, source) for option in values])
    raise GrammarError(
        f"the expression {source[:80]!r} is not supported; expressions may use "
        f"{', '.join('x.' + attribute for attribute in ATTRIBUTES)}, texts, + and or"
    )


def _first_true(
    options: Sequence[Callable[[Mapping[str, Entity]], Any]],
) -> Callable[[Mapping[str, Entity]], Any]:
    def value(scope: Mapping[str, Entity]) -> Any:
        for option in options:
            # As in Python, `or` returns the first true value, or else the last one.
            if result := option(scope):
                break
        return result

    return value


_KINDS: Mapping[str, Callable[..., Symbol]] = {
    "text": Literal,
    "rule": Named,
    "value": _expression,
    "each": _each,
}
