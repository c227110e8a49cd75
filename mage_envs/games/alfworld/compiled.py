"""A game ready to be played: everything that needs no parser, shared by all engines that play it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.games.alfworld.facts import Facts, Row, signature
from mage_envs.games.alfworld.grammar import Context, Entity, Grammar, GrammarError, Symbol, read_symbols
from mage_envs.games.alfworld.library import Library

_REMEMBERED = 512
"""Sets of commands kept per game; a set of 30 commands is about 3 KB."""
_INTRO = read_symbols([["rule", "intro"]])


class Effect(NamedTuple):
    """What a move makes true, and its negation, which it makes false."""

    added: str
    removed: str
    row: Row


class Operator:
    """One ground action of the planner."""

    def __init__(self, command: str, feedback: Sequence[Symbol], context: Context, effect_count: int) -> None:
        self.command = command
        self.feedback = feedback
        self.context = context
        self.effect_count = effect_count
        self.effects: tuple[Effect, ...] | None = None
        """None until it is first applied."""


class Choices(NamedTuple):
    """The commands of one state."""

    commands: tuple[str, ...]
    """Sorted, each once."""
    operators: Mapping[str, int]
    """Command to the operator that it applies."""


class CompiledGame:
    """A translated game. `content` is what `compiler.compile_game` writes, `sas` the compressed planning task."""

    def __init__(self, key: str, content: Mapping[str, Any], sas: bytes) -> None:
        self.key = key
        """Digest of the game's texts and of the engine's versions."""
        self.sas = sas
        self.starts_won: bool = content["starts_won"]
        """Whether the goal holds before the first move."""
        self._types: Mapping[str, str] = content["types"]
        self._parameters: Mapping[str, Sequence[Sequence[str]]] = content["parameters"]
        facts = {key: {tuple(row) for row in rows} for key, rows in content["facts"].items()}
        names = visible_names({one for rows in facts.values() for row in rows for one in row})
        entities = {one: Entity(one, names.get(one, one), kind) for one, kind in self._types.items()}
        self.grammar = Grammar(content["grammar"]["rules"], entities)
        self._actions = {
            name: (read_symbols(command), read_symbols(feedback))
            for name, (command, feedback) in content["grammar"]["actions"].items()
        }
        changing = set(content["changing"])
        self._facts = facts
        self._changing = [key for key in facts if _predicate(key) in changing]
        self._check_texts(changing)
        self.intro = self.grammar.text(_INTRO, facts, Context({}, {}))
        """The first text of every episode."""
        self._operators: dict[int, Operator] = {}
        self._choices: dict[tuple[int, ...], Choices] = {}

    def _check_texts(self, changing: Collection[str]) -> None:
        """Raises GrammarError where a text is missing, or where a command's text depends on what moves change."""
        seen: set[str] = set()
        self.grammar.queries(_INTRO, seen)
        for name, (command, feedback) in self._actions.items():
            self.grammar.queries(feedback, seen)
            for query in self.grammar.queries(command, set()):
                if any(_predicate(key) in changing for condition in query for key in condition.signatures):
                    raise GrammarError(f"the command of {name!r} depends on facts that change; this is not run here")

    def first_facts(self) -> Facts:
        """The facts of the first state; those that no move can change are shared."""
        facts = dict(self._facts)
        for key in self._changing:
            facts[key] = set(facts[key])
        return facts

    def choices(self, library: Library) -> Choices:
        """The commands of the library's current state."""
        applicable = library.applicable()
        known = self._choices.get(applicable)
        if known is not None:
            return known
        operators: dict[str, int] = {}
        for place, number in enumerate(applicable):
            operator = self._operators.get(number)
            if operator is None:
                operator = self._operators[number] = self._operator(*library.operator(place))
            operators.setdefault(operator.command, number)
        if len(self._choices) >= _REMEMBERED:
            self._choices.clear()
        choices = self._choices[applicable] = Choices(tuple(sorted(operators)), operators)
        return choices

    def apply(self, library: Library, facts: Facts, number: int) -> str:
        """Plays an operator of the current state, and `facts` with it; returns the text of what happens."""
        operator = self._operators[number]
        if operator.effects is None:
            operator.effects = tuple(map(self._effect, library.apply_named(number, operator.effect_count)))
        else:
            library.apply(number)
        for added, removed, row in operator.effects:
            if row in facts.get(removed, ()):
                facts[removed].remove(row)
            facts.setdefault(added, set()).add(row)
        return self.grammar.text(operator.feedback, facts, operator.context)

    def _operator(self, name: str, effect_count: int) -> Operator:
        """The operator that the library calls `name`: the action and its arguments, separated by blanks."""
        action, *arguments = name.split()
        command, feedback = self._actions[action]
        bound, scope = {}, {}
        for (parameter, kind), one in zip(self._parameters[action], arguments):
            # An argument of a parameter's narrower type equals no object of a fact: textworld compares types, too.
            bound[f"{parameter}:{kind}"] = one if self._types[one] == kind else f"{one}:{kind}"
            scope[parameter] = self.grammar.entities[one]
        context = Context(bound, scope)
        return Operator(self.grammar.text(command, self._facts, context), feedback, context, effect_count)

    def _effect(self, name: str) -> Effect:
        true, named, row = atom(name)
        kinds = [self._types[one] for one in row]
        holds, fails = signature(named, kinds), signature(f"not_{named}", kinds)
        return Effect(holds, fails, row) if true else Effect(fails, holds, row)


def atom(name: str) -> tuple[bool, str, Row]:
    """(whether it is affirmed, predicate, arguments) of an atom as the planner names it.

    Raises ValueError for a name of another form.
    """
    kind, _, rest = name.partition(" ")
    named, opened, arguments = rest.partition("(")
    if kind not in ("Atom", "NegatedAtom") or not opened or not arguments.endswith(")"):
        raise ValueError(f"the planner's fact {name[:80]!r} cannot be read")
    return kind == "Atom", named, tuple(one for one in arguments[:-1].split(", ") if one)


def _predicate(key: str) -> str:
    """The predicate of a signature, without its negation."""
    return key.partition("(")[0].removeprefix("not_")


def visible_names(ids: set[str]) -> dict[str, str]:
    """Object id to the name that players see, as alfworld's Demangler numbers them.

    `desk_bar_x` is `desk 1`; of several desks, the first in the order of the ids has the highest number. An id without
    `_bar_` is shown as it is, with a blank behind it.
    """
    shown = {}
    counts: Counter[str] = Counter()
    for one in sorted(ids, reverse=True):
        kind, separator, _ = one.partition("_bar_")
        if not separator:
            shown[one] = f"{_unescaped(one)} "
            continue
        kind = _unescaped(kind) + ("basin" if "basin" in one else "")
        counts[kind] += 1
        shown[one] = f"{kind} {counts[kind]}"
    return shown


def _unescaped(text: str) -> str:
    for mangled, plain in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        text = text.replace(mangled, plain)
    return text
