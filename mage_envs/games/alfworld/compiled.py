"""A game that is ready to play: everything that needs no parser, shared by all engines that play it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.games.alfworld.facts import Facts, Row, signature
from mage_envs.games.alfworld.grammar import Context, Entity, Grammar, GrammarError, Symbol, read_symbols
from mage_envs.games.alfworld.library import Library

_REMEMBERED = 512
"""Maximum command sets cached per game. A set of 30 commands is about 3 KB."""
_INTRO = read_symbols([["rule", "intro"]])


class Effect(NamedTuple):
    """A fact that a move makes true, and its negation, which the move makes false."""

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
        """None until the first application."""


class Choices(NamedTuple):
    """The admissible commands of one state."""

    commands: tuple[str, ...]
    """Sorted, without duplicates."""
    operators: Mapping[str, int]
    """Command to the id of the operator that it applies."""


class CompiledGame:
    """A translated game."""

    def __init__(self, key: str, content: Mapping[str, Any], sas: bytes) -> None:
        """Build the game from its translation.

        Args:
            key: Digest of the game's texts and of the engine's versions.
            content: Facts, types, actions and grammar, as `compiler.compile_game` writes them.
            sas: Compressed planning task.

        Raises:
            GrammarError: If the grammar cannot be used.
        """
        self.key = key
        """Digest of the game's texts and of the engine's versions."""
        self.sas = sas
        self.starts_won: bool = content["starts_won"]
        """True if the goal holds before the first move."""
        self._types: Mapping[str, str] = content["types"]
        self._parameters: Mapping[str, Sequence[Sequence[str]]] = content["parameters"]
        facts = {key: {tuple(row) for row in rows} for key, rows in content["facts"].items()}
        names = visible_names({object_id for rows in facts.values() for row in rows for object_id in row})
        entities = {
            object_id: Entity(object_id, names.get(object_id, object_id), kind)
            for object_id, kind in self._types.items()
        }
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
        """First text of every episode."""
        self._operators: dict[int, Operator] = {}
        self._choices: dict[tuple[int, ...], Choices] = {}

    def _check_texts(self, changing: Collection[str]) -> None:
        """Raise GrammarError if a text is missing, or if a command's text depends on facts that change."""
        visited_rules: set[str] = set()
        self.grammar.queries(_INTRO, visited_rules)
        for name, (command, feedback) in self._actions.items():
            self.grammar.queries(feedback, visited_rules)
            # An operator's command is derived once, from the first facts. So it must not depend on facts that change.
            for query in self.grammar.queries(command, set()):
                if any(_predicate(key) in changing for condition in query for key in condition.signatures):
                    raise GrammarError(f"the command of {name!r} depends on facts that change, which is not supported")

    def first_facts(self) -> Facts:
        """Return the facts of the first state. Facts that no move can change are shared with other episodes."""
        facts = dict(self._facts)
        for key in self._changing:
            facts[key] = set(facts[key])
        return facts

    def choices(self, library: Library) -> Choices:
        """Return the commands of the library's current state."""
        applicable = library.applicable()
        # The applicable operators determine the commands, because command texts do not depend on facts that change.
        known_choices = self._choices.get(applicable)
        if known_choices is not None:
            return known_choices
        operators: dict[str, int] = {}
        for position, number in enumerate(applicable):
            operator = self._operators.get(number)
            if operator is None:
                operator = self._operators[number] = self._operator(*library.operator(position))
            # If two operators have the same command, the first one is applied, as in textworld.
            operators.setdefault(operator.command, number)
        # A full cache is dropped: play soon refills it, and no order of use has to be stored.
        if len(self._choices) >= _REMEMBERED:
            self._choices.clear()
        choices = self._choices[applicable] = Choices(tuple(sorted(operators)), operators)
        return choices

    def apply(self, library: Library, facts: Facts, number: int) -> str:
        """Apply an operator of the current state and return the text of its effects.

        Args:
            library: Library that holds the state. The move changes it.
            facts: Facts of the current state. The move changes them in the same way.
        """
        operator = self._operators[number]
        # The names of the effects are always the same, so they are parsed only once per operator.
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
        """Return the operator with that name: the action and its arguments, separated by blanks."""
        action, *arguments = name.split()
        command, feedback = self._actions[action]
        bound, scope = {}, {}
        for (parameter, kind), argument in zip(self._parameters[action], arguments):
            # textworld compares types too. An argument whose own type differs from the parameter's type never matches
            # the object of a fact, so it gets an id that no fact has.
            bound[f"{parameter}:{kind}"] = argument if self._types[argument] == kind else f"{argument}:{kind}"
            scope[parameter] = self.grammar.entities[argument]
        context = Context(bound, scope)
        return Operator(self.grammar.text(command, self._facts, context), feedback, context, effect_count)

    def _effect(self, name: str) -> Effect:
        true, predicate, row = atom(name)
        kinds = [self._types[argument] for argument in row]
        holds, fails = signature(predicate, kinds), signature(f"not_{predicate}", kinds)
        return Effect(holds, fails, row) if true else Effect(fails, holds, row)


def atom(name: str) -> tuple[bool, str, Row]:
    """Return (True if it is affirmed, predicate, arguments) of an atom as the planner names it.

    Raises ValueError if the name has another form.
    """
    kind, _, statement = name.partition(" ")
    predicate, opened, arguments = statement.partition("(")
    if kind not in ("Atom", "NegatedAtom") or not opened or not arguments.endswith(")"):
        raise ValueError(f"cannot parse the planner's fact {name[:80]!r}")
    return kind == "Atom", predicate, tuple(argument for argument in arguments[:-1].split(", ") if argument)


def _predicate(key: str) -> str:
    """Return the predicate of a signature, without its negation."""
    return key.partition("(")[0].removeprefix("not_")


def visible_names(ids: set[str]) -> dict[str, str]:
    """Return object id to the name that players see, numbered as by alfworld's Demangler.

    `desk_bar_x` becomes `desk 1`. If there are several desks, the first id in sorted order gets the highest number. An
    id without `_bar_` keeps its text, followed by a blank.
    """
    names = {}
    counts: Counter[str] = Counter()
    for object_id in sorted(ids, reverse=True):
        kind, separator, _ = object_id.partition("_bar_")
        if not separator:
            names[object_id] = f"{_unmangle(object_id)} "
            continue
        kind = _unmangle(kind) + ("basin" if "basin" in object_id else "")
        counts[kind] += 1
        names[object_id] = f"{kind} {counts[kind]}"
    return names


def _unmangle(text: str) -> str:
    for mangled, plain in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        text = text.replace(mangled, plain)
    return text
