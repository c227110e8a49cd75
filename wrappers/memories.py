"""Memories by name: registration, listing, and making a strategy from a specification.

A specification is a registered name with optional options after a colon (`"reflexion"`, `"amem:k_read=10"`), an
importable `"module:Class"` (options after a second colon), or a function or class that takes no arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, overload

from mage_envs.arguments import nearest_name, options
from mage_envs.imports import check_path, load_class, load_entry
from mage_envs.plugins import load_announced
from wrappers.memory import EpisodicMemory, MemoryStrategy

Builder = Callable[..., MemoryStrategy]
B = TypeVar("B", bound=Builder)
MemorySpec = str | Callable[[], MemoryStrategy] | MemoryStrategy
"""What `memory=` takes."""

_REGISTRY: dict[str, Builder | str] = {
    "reflection": partial(EpisodicMemory, reflections=True, transcripts=False),
    "history": partial(EpisodicMemory, reflections=False, transcripts=True),
    "both": partial(EpisodicMemory, reflections=True, transcripts=True),
    "none": partial(EpisodicMemory, reflections=False, transcripts=False),
}
_METHOD = tuple(_REGISTRY)
"""The modes of the method, which have no options."""
_HOOKS = ("begin", "before_episode", "render")
"""Methods that every memory class defines."""


@overload
def register_memory(name: str) -> Callable[[B], B]: ...
@overload
def register_memory(name: str, *, entry_point: str) -> None: ...
def register_memory(name: str, *, entry_point: str | None = None) -> Callable[[B], B] | None:
    """Registers a memory: decorator of a class or function, or a call with `entry_point`, `"module:Class"`.

    What is decorated is called with the options after the colon, converted where its parameter is annotated `int`,
    `float` or `bool`. Raises `ValueError` for a bad or taken name.
    """
    if not name or any(letter in ":,= " for letter in name):
        raise ValueError(f"Memory name {name!r} is not free to use: no ':', ',', '=' or space in it, not empty.")
    if entry_point is not None:
        _add(name, entry_point)
        return None

    def register(builder: B) -> B:
        if not callable(builder):
            raise TypeError(f"Memory {name!r} must be a class or a function, got {type(builder).__name__}.")
        _add(name, builder)
        return builder

    return register


def _add(name: str, builder: Builder | str) -> None:
    old = _REGISTRY.get(name)
    if old is not None and _identity(old) != _identity(builder):
        raise ValueError(f"Memory {name!r} is already registered, by {_identity(old)}; choose another name.")
    _REGISTRY[name] = builder


def _identity(builder: Builder | str) -> str:
    """The import path, the same after a reload of its module."""
    if isinstance(builder, str):
        return builder
    return repr(builder) if isinstance(builder, partial) else f"{builder.__module__}:{builder.__qualname__}"


def list_memories() -> tuple[str, ...]:
    """Names of all memories: the method's modes, then the others, sorted."""
    load_announced("memories")
    return (*_METHOD, *sorted(_REGISTRY.keys() - set(_METHOD)))


def as_memory(memory: MemorySpec) -> MemoryStrategy:
    """The strategy that a specification stands for, new unless it is a strategy itself.

    Raises `ValueError` for an unknown name or option, `TypeError` for what is no strategy.
    """
    label = f"memory={memory!r}"
    if isinstance(memory, str):
        _, builder, given = _parsed(memory, label)
        made: object = builder(**given)
    elif isinstance(memory, type) or not isinstance(memory, MemoryStrategy):
        made = memory() if callable(memory) else memory
        label = f"memory={memory.__name__}" if isinstance(memory, type) else label
    else:
        made = memory
    if not isinstance(made, MemoryStrategy):
        raise TypeError(f"{label} gives a {type(made).__name__}, which lacks hooks of mage_envs.MemoryStrategy.")
    return made


def memory_settings(spec: str) -> dict[str, Any]:
    """A memory's name and all its options, those included that are not given; for a `bank` the file's SHA-256.

    Two specifications with equal settings play alike. Raises what `as_memory` raises, and OSError.
    """
    name, builder, given = _parsed(spec, f"memory={spec!r}")
    parameters = {} if name in _METHOD else inspect.signature(builder).parameters
    found = {"memory": name} | {key: given.get(key, parameter.default) for key, parameter in parameters.items()}
    if found.get("bank"):
        check_path(found["bank"], "memory bank")
        found["bank"] = sha256(Path(str(found["bank"])).read_bytes()).hexdigest()
    return found


def refuse_instance(memory: MemorySpec) -> None:
    """Raises ValueError where several environments would share one strategy."""
    if isinstance(memory, MemoryStrategy) and not isinstance(memory, str | type):
        name = type(memory).__name__
        raise ValueError(
            f"memory={name}(...) is one object, and more than one environment is made: each needs its own. Give a "
            f"function that makes one (memory={name}, or memory=lambda: {name}(...)), or a name."
        )


def _parsed(spec: str, label: str) -> tuple[str, Builder, dict[str, Any]]:
    """The name, what makes the strategy, and the options that were given."""
    name, colon, rest = spec.partition(":")
    if name not in _REGISTRY:
        load_announced("memories")
    if name in _REGISTRY:
        found = _REGISTRY[name]
        builder: Builder = load_entry(found) if isinstance(found, str) else found
    else:
        attribute, colon, rest = rest.partition(":")
        if not attribute.isidentifier():
            hint = nearest_name(name, list_memories())
            raise ValueError(
                f"{label} is unknown;{hint} choose one of: {', '.join(list_memories())}, or give a MemoryStrategy."
            )
        name = f"{name}:{attribute}"
        builder = load_class(name, "a memory", _HOOKS)
    texts = rest.split(",") if colon else []
    if name in _METHOD and texts:
        raise ValueError(f"{label}: {name!r} takes no options after the colon.")
    return name, builder, options(label, builder, texts)


for _name, _class in (
    ("react", "react:ReAct"),
    ("reflexion", "reflexion:Reflexion"),
    ("amem", "amem:AMem"),
    ("memento", "memento:Memento"),
    ("memento_trace", "memento:MementoTrace"),
    ("memento_q", "memento:MementoQ"),
):
    register_memory(_name, entry_point=f"wrappers.baselines.{_class}")
