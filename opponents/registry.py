"""Opponents by name: registration, listing, and making a policy from a specification.

A specification is a registered name with optional arguments after a colon (`"uniform"`, `"mcts:1000"`,
`"kuhn/nash:0.2"`), an importable `"module:Class"` (arguments after a second colon), or a policy itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, overload

from mage_envs.arguments import convert, nearest_name
from mage_envs.core import Game, Policy
from mage_envs.imports import NoSuchModule, NoSuchName, load_class, load_entry, searched
from mage_envs.plugins import load_announced

Builder = Callable[..., Policy]
B = TypeVar("B", bound=Builder)


class UnknownOpponent(KeyError):
    """A name that no opponent or pool has; the message suggests the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class OpponentInfo:
    """What is registered under a name."""

    name: str
    builder: Builder | str
    """Class or function that makes the policy, or `"module:Class"`, imported when first needed."""
    games: Collection[str] | None = None
    """Names of the games it plays, None for any; kept as given, so a collection that grows is seen growing."""
    needs_game: bool = False
    """Whether the builder takes the game as first argument."""
    alias_of: str | None = None
    """Name of which this is declared to be another."""
    form: str | None = None
    """How it is named, as in `switch:first,then,episode`, where the name alone makes no opponent."""

    def plays(self, game_name: str) -> bool:
        return self.games is None or game_name in self.games


_REGISTRY: dict[str, OpponentInfo] = {}


@overload
def register_opponent(
    name: str, *, games: Collection[str] | None = None, needs_game: bool = False, form: str | None = None
) -> Callable[[B], B]: ...
@overload
def register_opponent(
    name: str,
    *,
    entry_point: str,
    games: Collection[str] | None = None,
    needs_game: bool = False,
    form: str | None = None,
) -> None: ...
@overload
def register_opponent(name: str, *, alias_of: str, games: Collection[str] | None = None) -> None: ...
def register_opponent(
    name: str,
    *,
    games: Collection[str] | None = None,
    needs_game: bool = False,
    entry_point: str | None = None,
    alias_of: str | None = None,
    form: str | None = None,
) -> Callable[[B], B] | None:
    """Registers an opponent: decorator of a class or function, or a call with `entry_point` or `alias_of`.

    What is decorated is called with the arguments after the colon, converted where the parameter is annotated
    `int` or `float`; with `needs_game` the `Game` comes first. `games=None` means any game. `form` shows the arguments
    of one that cannot do without.
    Raises `ValueError` for a bad or taken name.
    """
    if isinstance(games, str):
        raise TypeError(f"Opponent {name!r}: games={games!r} must be a collection of names: games=[{games!r}].")
    if alias_of is not None:
        known = opponent_info(alias_of)
        _add(replace(known, name=name, alias_of=alias_of, games=known.games if games is None else games))
        return None
    if entry_point is not None:
        _add(OpponentInfo(name, entry_point, games, needs_game, form=form))
        return None

    def register(builder: B) -> B:
        if not callable(builder):
            raise TypeError(f"Opponent {name!r} must be a class or a function, got {type(builder).__name__}.")
        _add(OpponentInfo(name, builder, games, needs_game, form=form))
        return builder

    return register


def list_opponents(game_name: str | None = None) -> tuple[str, ...]:
    """Names of all opponents, or of those that play `game_name`; sorted, aliases included.

    Each is an opponent as it stands; `list_forms` has those that need arguments.
    """
    return tuple(sorted(info.name for info in _fitting(game_name) if info.form is None))


def list_forms(game_name: str | None = None) -> tuple[str, ...]:
    """Forms of the opponents that need arguments, as in `switch:first,then,episode`; sorted."""
    return tuple(sorted(info.form for info in _fitting(game_name) if info.form is not None))


def _fitting(game_name: str | None) -> list[OpponentInfo]:
    load_announced("opponents")
    return [info for info in _REGISTRY.values() if game_name is None or info.plays(game_name)]


def opponent_info(name: str) -> OpponentInfo:
    """What is registered under `name` (no arguments); raises `UnknownOpponent`."""
    info = _find(name)
    if info is None:
        raise _unknown(name, None)
    return info


def make_opponent(spec: str | Policy, game: Game) -> Policy:
    """The policy that `spec` stands for, new unless `spec` is a policy.

    `game` is an instance made for this call, never the one being played: builders with `needs_game` see it.
    Raises `UnknownOpponent`, and `ValueError` for the wrong game or bad arguments.
    """
    if not isinstance(spec, str):
        return _checked(spec, type(spec).__name__)
    if spec.startswith("pool:"):
        raise ValueError(f"{spec!r} is a pool, not one opponent; as_pool({spec!r}).draw(rng) draws one.")
    name, colon, rest = spec.partition(":")
    info = _find(name)
    if info is None:
        attribute, colon, rest = rest.partition(":")
        info = _imported(name, attribute)
        if info is None:
            raise _unknown(name, game.facts.name, module=attribute.isidentifier())
    if not info.plays(game.facts.name):
        raise ValueError(
            f"Opponent {info.name!r} plays {' or '.join(sorted(info.games or ()))}, not {game.facts.name}. "
            f'list_opponents("{game.facts.name}") names those that fit.'
        )
    builder = _load(info)
    values = convert(spec, builder, rest.split(",") if colon else (), skip=int(info.needs_game))
    return _checked(builder(game, *values) if info.needs_game else builder(*values), spec)


def split_names(text: str) -> tuple[str, ...]:
    """Return the specifications in a list that is separated by commas, or by semicolons.

    A comma also separates the arguments of one opponent. A part is an argument if the opponent before it lacks
    required arguments, or if that has a colon and the part does not look like a name (it has no slash and no colon, and
    is not registered).
    """
    if ";" in text:
        return tuple(part.strip() for part in text.split(";") if part.strip())
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        head = part.partition(":")[0]
        own = "/" in head or ":" in part or _find(head) is not None
        if names and part and (_lacks_arguments(names[-1]) or (":" in names[-1] and not own)):
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return tuple(names)


def _lacks_arguments(spec: str) -> bool:
    """Return True if a registered opponent needs more arguments than `spec` has."""
    head, colon, rest = spec.partition(":")
    info = _find(head)
    if info is None or not colon:
        return False
    parameters = list(inspect.signature(_load(info)).parameters.values())[int(info.needs_game) :]
    required = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    return len(rest.split(",")) < len(required)


def _find(name: str) -> OpponentInfo | None:
    if name not in _REGISTRY:
        load_announced("opponents")
    return _REGISTRY.get(name)


def _unknown(name: str, game_name: str | None, module: bool = False) -> UnknownOpponent:
    hint = nearest_name(name, list_opponents(game_name)) or nearest_name(name, _REGISTRY)
    shown = f'"{game_name}"' if game_name is not None else ""
    missing = f" There is no module {name!r} either. Searched: {searched()}." if module else ""
    return UnknownOpponent(f"Unknown opponent {name!r}.{hint} list_opponents({shown}) names them all.{missing}")


def _imported(module: str, attribute: str) -> OpponentInfo | None:
    """Return the opponent class that `"module:attribute"` refers to, or None if the text is not of that form.

    If the class is registered, its registration is returned, so that `games` and `needs_game` apply.

    Raises:
        UnknownOpponent: If the module has no such class.
        TypeError: If it is not a class with the methods of a policy. A function is refused, because calling an
            arbitrary function could do anything.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        return None
    name = f"{module}:{attribute}"
    registered = [info for info in _REGISTRY.values() if _identity(info.builder) == name]
    if registered:
        return replace(registered[0], name=name)
    try:
        builder = load_class(name, "an opponent", ("reset", "act"))
    except NoSuchModule:
        return None
    except NoSuchName as error:
        raise UnknownOpponent(
            f"Unknown opponent {name!r}: the module has no {attribute!r}; name a class in it."
        ) from error
    known = [info for info in _REGISTRY.values() if _identity(info.builder) == _identity(builder)]
    return replace(known[0], name=name, builder=builder) if known else OpponentInfo(name, builder)


def _identity(builder: Builder | str) -> str:
    """The import path of a builder (and a partial's arguments): the same after a reload of its module."""
    if isinstance(builder, str):
        return builder
    if isinstance(builder, partial):
        return f"{_identity(builder.func)}{builder.args}{builder.keywords}"
    return f"{builder.__module__}:{builder.__qualname__}"


def _add(info: OpponentInfo) -> None:
    name = info.name
    if not name or name == "pool" or any(letter in ":, " for letter in name):
        raise ValueError(
            f"Opponent name {name!r} is not free to use: no ':', ',' or space in it, not empty, not 'pool'."
        )
    old = _REGISTRY.get(name)
    if old is not None and _identity(old.builder) != _identity(info.builder):
        raise ValueError(
            f"Opponent {name!r} is already registered, by {_identity(old.builder)}; "
            f"choose another name for {_identity(info.builder)}."
        )
    _REGISTRY[name] = info


def _load(info: OpponentInfo) -> Builder:
    if not isinstance(info.builder, str):
        return info.builder
    builder: Builder = load_entry(info.builder)
    return builder


def _checked(policy: object, label: str) -> Policy:
    if isinstance(policy, type):
        raise TypeError(f"Opponent {policy.__name__} is a class; pass an instance of it: {policy.__name__}().")
    if not isinstance(policy, Policy):
        raise TypeError(f"Opponent {label!r} is a {type(policy).__name__}, which lacks reset(rng) or act(turn).")
    return policy
