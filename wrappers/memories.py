"""Registry of memories: registration, listing, and creation of a strategy from a specification.

A specification is a name with arguments (`mage_envs.loading.arguments`) such as `"reflexion"`, `"amem:k_read=10"` or
`"module:Class"`, or a function or class without required arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, overload

from mage_envs.files.bounded import read_named
from mage_envs.loading.arguments import Spec, bind, call, nearest_name, parse
from mage_envs.loading.defaults import fill_in
from mage_envs.loading.imports import check_path, import_path, load_class, load_entry
from mage_envs.loading.plugins import load_announced
from mage_envs.wrappers.memory import REQUIRED_HOOKS, EpisodicMemory, Memory, is_memory

Builder = Callable[..., Any]
B = TypeVar("B", bound=Builder)
MemorySpec = str | Callable[[], Any] | Memory
"""Type of `memory=`: a specification, or a strategy itself."""

_REGISTRY: dict[str, Builder | str] = {
    "reflection": lambda: EpisodicMemory(reflections=True, transcripts=False),
    "history": lambda: EpisodicMemory(reflections=False, transcripts=True),
    "both": lambda: EpisodicMemory(reflections=True, transcripts=True),
    "none": lambda: EpisodicMemory(reflections=False, transcripts=False),
}
_METHOD = tuple(_REGISTRY)
"""Names of the method's modes, which have no options."""


@overload
def register_memory(name: str) -> Callable[[B], B]: ...
@overload
def register_memory(name: str, *, entry_point: str) -> None: ...
def register_memory(name: str, *, entry_point: str | None = None) -> Callable[[B], B] | None:
    """Register a memory, as a decorator of a class or function or with an `entry_point` (`"module:Class"`).

    The class or function receives the arguments after the colon, converted as `mage_envs.loading.arguments` describes.
    Raises `ValueError` if the name is invalid or already registered.
    """
    if not name or any(letter in ":,= " for letter in name):
        raise ValueError(f"Memory name {name!r} is invalid; it must not be empty or contain ':', ',', '=' or a space.")
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
    # Registering the same memory again is allowed, because a notebook or importlib.reload runs a module twice.
    if old is not None and import_path(old) != import_path(builder):
        raise ValueError(f"Memory {name!r} is already registered, by {import_path(old)}. Choose another name.")
    _REGISTRY[name] = builder


def list_memories() -> tuple[str, ...]:
    """Return the names of all memories: the method's modes first, then the others in alphabetical order."""
    load_announced("memories")
    return (*_METHOD, *sorted(_REGISTRY.keys() - set(_METHOD)))


def as_memory(memory: MemorySpec) -> Memory:
    """Return the strategy for a specification. A strategy is returned unchanged, anything else creates a new one.

    Raises `ValueError` if a name or option is unknown, and `TypeError` if the result is not a strategy.
    """
    label = f"memory={memory!r}"
    if isinstance(memory, str):
        strategy: object = call(label, *_parse_spec(memory, label))
    elif is_memory(memory):
        strategy = memory
    else:
        strategy = memory() if callable(memory) else memory
        label = f"memory={memory.__name__}" if isinstance(memory, type) else label
    if not is_memory(strategy):
        raise TypeError(f"{label}: expected a mage_envs.Memory, got {type(strategy).__name__}.")
    filled: Memory = fill_in(strategy, Memory)
    return filled


def memory_settings(spec: str) -> dict[str, Any]:
    """Return a memory's name and all its options, defaults included. A `bank` is replaced by its file's SHA-256.

    If two specifications have equal settings, they behave in the same way. Raises the errors of `as_memory`, and
    OSError if a bank cannot be read.
    """
    label = f"memory={spec!r}"
    parsed, builder = _parse_spec(spec, label)
    bound = bind(label, parsed, builder)
    bound.apply_defaults()
    settings = {"memory": parsed.name, **bound.arguments}
    # The path of a bank says nothing about its content: files move and change.
    if settings.get("bank"):
        check_path(settings["bank"], "memory bank")
        settings["bank"] = sha256(read_named(Path(str(settings["bank"])))).hexdigest()
    return settings


def refuse_instance(memory: MemorySpec) -> None:
    """Raise ValueError if `memory` is a strategy, because several environments would share it."""
    if is_memory(memory):
        name = type(memory).__name__
        raise ValueError(
            f"memory={name}(...) is one object, but each environment needs its own. Pass a function that creates one "
            f"(memory={name}, or memory=lambda: {name}(...)), or a registered name."
        )


def _parse_spec(text: str, label: str) -> tuple[Spec, Builder]:
    """Return the parsed specification, and the builder of its strategy."""
    # Installed plug-ins are imported only if the name is unknown, so that built-in memories start fast.
    if parse(text).name not in _REGISTRY:
        load_announced("memories")
    spec = parse(text, _REGISTRY.__contains__)
    if spec.name in _REGISTRY:
        builder = _REGISTRY[spec.name]
        return spec, load_entry(builder) if isinstance(builder, str) else builder
    if ":" not in spec.name:
        hint = nearest_name(spec.name, list_memories())
        raise ValueError(f"{label} is unknown;{hint} choose one of: {', '.join(list_memories())}, or pass a Memory.")
    return spec, load_class(spec.name, "a memory", REQUIRED_HOOKS)


# By entry point, so that importing `wrappers` does not import the baselines.
for _name, _class in (
    ("react", "react:ReAct"),
    ("reflexion", "reflexion:Reflexion"),
    ("amem", "amem:AMem"),
    ("memento", "memento:Memento"),
    ("memento_trace", "memento:MementoTrace"),
    ("memento_q", "memento:MementoQ"),
):
    register_memory(_name, entry_point=f"mage_envs.wrappers.baselines.{_class}")
