"""Registry of opponents: registration, listing, and policies from specifications.

A specification is a policy, or a name with arguments (`mage_envs.loading.arguments`): `"uniform"`, `"kuhn/nash:0.2"`,
`"mcts:1000"`, `"module:Class"`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args, overload

from mage_envs.core import Game, Policy
from mage_envs.loading.arguments import call, lacks_arguments, nearest_name, parse
from mage_envs.loading.defaults import fill_in
from mage_envs.loading.imports import (
    NoSuchModule,
    NoSuchName,
    describe_search_path,
    import_path,
    load_class,
    load_entry,
    load_registered,
)
from mage_envs.loading.plugins import load_announced
from mage_envs.registry import opponent_modules

Builder = Callable[..., Any]
B = TypeVar("B", bound=Builder)
REQUIRED_METHODS = ("reset", "act")
"""Methods that every policy defines."""


class UnknownOpponent(KeyError):
    """An unknown name of an opponent or a pool; the message suggests the nearest known name."""

    def __str__(self) -> str:
        # KeyError would show the message as a quoted `repr`.
        return str(self.args[0])


class UnknownServer(UnknownOpponent, ValueError):
    """A model without an address, which can only be played again from records."""


OpponentKind = Literal["fixed", "searching", "learning", "model"]
"""Kind of an opponent: it plays every episode alike, computes its moves, learns or changes, or is a language model."""


@dataclass(frozen=True)
class OpponentInfo:
    """Registration of one opponent name."""

    name: str
    builder: Builder | str
    """Class or function that makes the policy, or an entry point `"module:Class"`, which is imported on first use."""
    games: Collection[str] | None = None
    """Names of its games, or None for any game. The collection is not copied, so names added later count."""
    needs_game: bool = False
    """True if the builder's first argument is the game."""
    alias_of: str | None = None
    """Name of the opponent that this is an alias of."""
    form: str | None = None
    """Pattern of the specification, such as `switch:first,then,episode`, if the name requires arguments."""
    kind: OpponentKind = "fixed"

    def plays(self, game_name: str) -> bool:
        return self.games is None or game_name in self.games


_REGISTRY: dict[str, OpponentInfo] = {}


@overload
def register_opponent(
    name: str,
    *,
    games: Collection[str] | None = None,
    needs_game: bool = False,
    form: str | None = None,
    kind: OpponentKind = "fixed",
) -> Callable[[B], B]: ...
@overload
def register_opponent(
    name: str,
    *,
    entry_point: str,
    games: Collection[str] | None = None,
    needs_game: bool = False,
    form: str | None = None,
    kind: OpponentKind = "fixed",
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
    kind: OpponentKind = "fixed",
) -> Callable[[B], B] | None:
    """Register an opponent, as a decorator of a class or function, or with `entry_point` or `alias_of`.

    `make_opponent` calls the builder with the arguments after the colon. `mage_envs.loading.arguments` describes how
    they are converted.

    Args:
        name: Name of the opponent; without colons, commas and spaces.
        games: Names of the games that it plays; None for any game.
        needs_game: True if the builder's first argument is the `Game`.
        entry_point: Builder as `"module:Class"`, imported on first use.
        alias_of: Registered name that `name` is an alias of.
        form: Pattern of the specification, if the opponent requires arguments.
        kind: Group of the opponent in `mage list opponents`.

    Raises:
        ValueError: If the name is invalid or registered for another builder.
        TypeError: If `games` is a string or the builder cannot be called.
    """
    if isinstance(games, str):
        raise TypeError(f"Opponent {name!r}: games={games!r} must be a collection of names: games=[{games!r}].")
    if alias_of is not None:
        original = opponent_info(alias_of)
        _add(replace(original, name=name, alias_of=alias_of, games=original.games if games is None else games))
        return None
    if entry_point is not None:
        _add(OpponentInfo(name, entry_point, games, needs_game, form=form, kind=kind))
        return None

    def register(builder: B) -> B:
        if not callable(builder):
            raise TypeError(f"Opponent {name!r} must be a class or a function, got {type(builder).__name__}.")
        _add(OpponentInfo(name, builder, games, needs_game, form=form, kind=kind))
        return builder

    return register


def list_opponents(game_name: str | None = None) -> tuple[str, ...]:
    """Return the sorted names of all opponents, or of those that play `game_name`, with aliases.

    Names that require arguments are not included; see `list_forms`.
    """
    return tuple(sorted(info.name for info in _fitting(game_name) if info.form is None))


def list_forms(game_name: str | None = None) -> tuple[str, ...]:
    """Return the sorted forms of the opponents that require arguments, such as `switch:first,then,episode`."""
    return tuple(sorted(info.form for info in _fitting(game_name) if info.form is not None))


def list_kinds(game_name: str | None = None) -> dict[OpponentKind, tuple[str, ...]]:
    """Return the sorted names and forms of all opponents, or of those that play `game_name`, by their kind."""
    kinds: dict[OpponentKind, list[str]] = {kind: [] for kind in get_args(OpponentKind)}
    for info in _fitting(game_name):
        kinds[info.kind].append(info.form or info.name)
    return {kind: tuple(sorted(names)) for kind, names in kinds.items()}


def load_opponents(name: str) -> None:
    """Import the module that registers the opponents and pools with the prefix of `name` (`kuhn` of `kuhn/nash`).

    Does nothing if no game has the prefix.
    """
    prefix, slash, _ = name.partition("/")
    if slash and prefix not in opponent_modules():
        # The modules of installed games name the modules of their opponents.
        load_announced("games")
    module = opponent_modules().get(prefix)
    if module is not None:
        # While that module registers its own names this returns at once, because Python does not import it twice.
        load_registered(module)


def load_all_opponents() -> None:
    """Import every module that registers opponents: those of the games, then those of other packages."""
    load_announced("games")
    for module in opponent_modules().values():
        load_registered(module)
    load_announced("opponents")


def _fitting(game_name: str | None) -> list[OpponentInfo]:
    load_all_opponents()
    return [info for info in _REGISTRY.values() if game_name is None or info.plays(game_name)]


def opponent_info(name: str) -> OpponentInfo:
    """Return the registration of `name` (without arguments); raise `UnknownOpponent` if there is none."""
    info = _find(name)
    if info is None:
        raise _unknown(name, None)
    return info


def make_opponent(spec: str | Policy, game: Game) -> Policy:
    """Return a new policy for a specification, or `spec` itself if it is a policy.

    `game` must not be an instance that is being played, because builders with `needs_game` receive it.

    Raises:
        UnknownOpponent: If no opponent has the name.
        ValueError: If the opponent does not play this game, or its arguments are invalid.
        TypeError: If the result is not a policy.
    """
    if not isinstance(spec, str):
        return _check_policy(spec, type(spec).__name__)
    if spec.startswith("pool:"):
        raise ValueError(f"{spec!r} is a pool, not one opponent. Draw one with as_pool({spec!r}).draw(rng).")
    parsed = parse(spec, lambda name: _find(name) is not None)
    info = _find(parsed.name) or _import_opponent(parsed.name)
    if info is None:
        raise _unknown(parsed.name, game.spec.name)
    if not info.plays(game.spec.name):
        # Each game adds itself to the opponents that play several ones, when its own opponents are loaded.
        load_all_opponents()
    if not info.plays(game.spec.name):
        raise ValueError(
            f"Opponent {info.name!r} plays {' or '.join(sorted(info.games or ()))}, not {game.spec.name}. "
            f'list_opponents("{game.spec.name}") returns the names that fit.'
        )
    game_arguments = (game,) if info.needs_game else ()
    return _check_policy(call(f"Opponent {spec!r}", parsed, _load(info), *game_arguments), spec)


def portable_spec(spec: str) -> str:
    """Return the specification of an opponent or agent without the servers of its model.

    Raises ValueError if it is malformed.
    """
    kind, _, endpoint = spec.partition(":")
    if kind != "llm" or "@http" not in endpoint:
        return spec
    # Imported here, because few opponents are models.
    from mage_envs.opponents.llm.names import portable_name

    return f"{kind}:{portable_name(endpoint)}"


def without_servers(specs: Sequence[str]) -> tuple[str, ...]:
    """Return the `portable_spec` of each opponent. `make_opponent` finds its server, in worker processes too."""
    portable_specs = {spec: portable_spec(spec) for spec in specs}
    if moved := {
        name.partition(":")[2]: spec.partition(":")[2] for spec, name in portable_specs.items() if spec != name
    }:
        from mage_envs.opponents.llm.names import remember_servers

        remember_servers(moved)
    return tuple(portable_specs[spec] for spec in specs)


def split_names(text: str) -> tuple[str, ...]:
    """Return the specifications in a list that is separated by commas, or by semicolons.

    A comma also separates the arguments of one opponent. A part is an argument in two cases: if required arguments of
    the previous opponent are missing, or if that opponent has a colon and the part does not look like a name. A name
    contains a slash or a colon, or is registered.
    """
    if ";" in text:
        return tuple(part.strip() for part in text.split(";") if part.strip())
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        name = parse(part).name
        is_name = "/" in name or ":" in part or _find(name) is not None
        if names and part and (_lacks_arguments(names[-1]) or (":" in names[-1] and not is_name)):
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return tuple(names)


def _lacks_arguments(spec: str) -> bool:
    """Return True if a registered opponent needs more arguments than `spec` has."""
    parsed = parse(spec)
    info = _find(parsed.name)
    if info is None or parsed.arguments is None:
        return False
    return lacks_arguments(parsed, _load(info), skip=int(info.needs_game))


def _find(name: str) -> OpponentInfo | None:
    if name not in _REGISTRY:
        load_opponents(name)
    # Modules of games may also register names without their prefix, such as `minimax`.
    if name not in _REGISTRY:
        load_all_opponents()
    return _REGISTRY.get(name)


def _unknown(name: str, game_name: str | None) -> UnknownOpponent:
    name, module, _ = name.partition(":")
    # Prefer names that play this game; a hint from another game still helps against a typing error.
    hint = nearest_name(name, list_opponents(game_name)) or nearest_name(name, _REGISTRY)
    argument = f'"{game_name}"' if game_name is not None else ""
    missing = f" There is no module {name!r} either. Searched: {describe_search_path()}." if module else ""
    return UnknownOpponent(f"Unknown opponent {name!r}.{hint} list_opponents({argument}) returns all names.{missing}")


def _import_opponent(name: str) -> OpponentInfo | None:
    """Return the opponent class that `"module:Class"` refers to, or None if the text is not of that form.

    If the class is registered, its registration is returned, so that `games` and `needs_game` apply.

    Raises:
        UnknownOpponent: If the module has no such class.
        TypeError: If it is not a class with the methods of a policy. A function is refused, because calling an
            arbitrary function could do anything.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    if ":" not in name:
        return None
    registered = [info for info in _REGISTRY.values() if import_path(info.builder) == name]
    if registered:
        return replace(registered[0], name=name)
    try:
        builder = load_class(name, "an opponent", REQUIRED_METHODS)
    except NoSuchModule:
        return None
    except NoSuchName as error:
        raise UnknownOpponent(
            f"Unknown opponent {name!r}: the module has no {name.partition(':')[2]!r}; name a class in it."
        ) from error
    registrations = [info for info in _REGISTRY.values() if import_path(info.builder) == import_path(builder)]
    return replace(registrations[0], name=name, builder=builder) if registrations else OpponentInfo(name, builder)


def _add(info: OpponentInfo) -> None:
    name = info.name
    if not name or name == "pool" or any(letter in ":, " for letter in name):
        raise ValueError(
            f"Opponent name {name!r} is not free to use. It must not be empty or 'pool', and must not contain ':', "
            "',' or a space."
        )
    # A name of a game's own opponents must be found taken, even if their module was not needed before.
    load_opponents(name)
    # Registering the same builder again is legal: notebooks and reloaded modules do it.
    old = _REGISTRY.get(name)
    if old is not None and import_path(old.builder) != import_path(info.builder):
        raise ValueError(
            f"Opponent {name!r} is already registered, by {import_path(old.builder)}. "
            f"Choose another name for {import_path(info.builder)}."
        )
    _REGISTRY[name] = info


def _load(info: OpponentInfo) -> Builder:
    if not isinstance(info.builder, str):
        return info.builder
    builder: Builder = load_entry(info.builder)
    return builder


def _check_policy(policy: object, label: str) -> Policy:
    if isinstance(policy, type):
        raise TypeError(f"Opponent {policy.__name__} is a class. Pass an instance of it: {policy.__name__}().")
    if not is_policy(policy):
        raise TypeError(
            f"Opponent {label!r} must be a policy with reset(rng) and act(turn), got {type(policy).__name__}."
        )
    filled: Policy = fill_in(policy, Policy)
    return filled


def is_policy(value: object) -> bool:
    """Return True if a value is a policy itself, and no class or function that creates one."""
    methods = (getattr(value, method, None) for method in REQUIRED_METHODS)
    return not isinstance(value, str | type) and all(map(callable, methods))
