"""Defaults of a base class for classes that do not inherit from it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

B = TypeVar("B")


def fill_in(instance: Any, base: type[B]) -> B:
    """Return the instance, whose class then has every public attribute of the base class.

    Missing attributes are added to the user's class once, so that callers need not probe an instance.
    """
    kind = type(instance)
    if not isinstance(instance, base):
        for name in (name for cls in reversed(base.__mro__) if cls is not object for name in vars(cls)):
            if not name.startswith("_") and not hasattr(kind, name):
                setattr(kind, name, getattr(base, name))
    return cast(B, instance)
