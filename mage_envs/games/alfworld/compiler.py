"""From the texts of a game to a `CompiledGame`, by one run of the real translator and of the real grammar parsers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld.compiled import CompiledGame, atom
from mage_envs.games.alfworld.errors import GameFileError, describe
from mage_envs.games.alfworld.facts import Facts, signature
from mage_envs.games.alfworld.gamefile import GameText
from mage_envs.games.alfworld.grammar import GrammarError
from mage_envs.games.alfworld.library import LONGEST_NAME, LibraryPool
from mage_envs.games.alfworld.parsing import GrammarParser

FORMAT = 1
"""Version of the content. It is part of every key, so that an older cache is not read."""


def game_key(game: GameText) -> str:
    """Return a digest of everything that the compiled game depends on."""
    # The first three fields are the texts. The source is left out, so that equal files share one entry.
    return sha256(json.dumps([FORMAT, packages.versions(), *game[:3]]).encode()).hexdigest()


def compile_game(key: str, game: GameText, pool: LibraryPool) -> tuple[CompiledGame, dict[str, Any]]:
    """Return the compiled game and its content as JSON values.

    Args:
        key: Result of `game_key`.
        pool: Pool of library copies. One is used for the first state and returned.

    Raises:
        GameFileError: If any of the texts is wrong.
    """
    try:
        task, sas = packages.translate(game.domain, game.problem)
    # The translator calls `sys.exit` for some mistakes.
    except (Exception, SystemExit) as error:
        raise GameFileError(game.source, f"the planner cannot parse its PDDL ({describe(error)})") from error
    # The library copies names into buffers of this size without a check, so a longer one would corrupt memory.
    if max(map(len, sas.split("\n"))) >= LONGEST_NAME:
        raise GameFileError(game.source, f"its PDDL makes names of {LONGEST_NAME} characters or more")
    types = {entity.name: entity.type_name for entity in task.objects}
    compressed = zlib.compress(sas.encode())
    facts = _read_facts(game, task, types)
    # The first state comes from the planner, because it may have facts that the problem does not list.
    library = pool.take(key)
    try:
        library.start(key, compressed)
        atoms, starts_won = library.state(), library.goal_holds()
    finally:
        pool.give_back(library)
    _add_derived_facts(game, atoms, types, facts)
    content = {
        "starts_won": starts_won,
        "types": types,
        "parameters": {
            action.name: [[parameter.name.strip("?"), parameter.type_name] for parameter in action.parameters]
            for action in task.actions
        },
        "facts": {fact: sorted(rows) for fact, rows in sorted(facts.items())},
        "changing": sorted({effect.literal.predicate for action in task.actions for effect in action.effects}),
        "grammar": _grammar(game, task),
    }
    try:
        return CompiledGame(key, content, compressed), content
    except GrammarError as error:
        raise GameFileError(game.source, str(error)) from error
    except RecursionError as error:
        raise GameFileError(game.source, "a rule of its grammar needs itself") from error


def _read_facts(game: GameText, task: Any, types: Mapping[str, str]) -> Facts:
    """Return the facts that the problem lists."""
    facts: Facts = {}
    atoms = packages.import_engine("fast_downward.translate.pddl.conditions").Atom
    for fact in task.init:
        if isinstance(fact, atoms) and fact.predicate != "=":
            for argument in fact.args:
                if argument not in types:
                    raise GameFileError(game.source, f"its object {argument!r} is not declared")
            _add(facts, types, fact.predicate, tuple(fact.args))
    return facts


def _add_derived_facts(game: GameText, atoms: Sequence[str], types: Mapping[str, str], facts: Facts) -> None:
    """Add the facts that the planner derives in the first state."""
    for name in atoms:
        try:
            affirmed, predicate, row = atom(name)
            if affirmed:
                _add(facts, types, predicate, row)
        except (ValueError, KeyError) as error:
            raise GameFileError(game.source, "its goal can never be reached, or asks for nothing") from error


def _add(facts: Facts, types: Mapping[str, str], predicate: str, row: tuple[str, ...]) -> None:
    facts.setdefault(signature(predicate, [types[argument] for argument in row]), set()).add(row)


def _grammar(game: GameText, task: Any) -> dict[str, Any]:
    kinds = [(kind.name, list(kind.supertype_names)) for kind in task.types]
    try:
        grammar = GrammarParser(kinds).parse(game.grammar)
    # The parsers raise many types of errors, among them those of the JSON and of the type hierarchy.
    except Exception as error:
        raise GameFileError(game.source, f"its grammar cannot be parsed ({describe(error)})") from error
    for action in task.actions:
        if action.name not in grammar["actions"]:
            raise GameFileError(game.source, f"its grammar has no action {action.name!r}")
    return grammar
