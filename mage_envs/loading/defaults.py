"""Defaults of a base class for classes that do not inherit from it."""

from __future__ import annotations

from typing import Any


def fill_in(instance: Any, base: type) -> Any:
    """Return the instance, whose class then has every public attribute of the base class that is not abstract.

    Missing attributes are added to the user's class once, so that callers need not probe an instance.

    Raises:
        TypeError: If the class cannot be changed, such as one that is written in C.
    """
    kind = type(instance)
    if isinstance(instance, base):
        return instance
    for name, default in vars(base).items():
        if name.startswith("_") or hasattr(kind, name) or getattr(default, "__isabstractmethod__", False):
            continue
        try:
            setattr(kind, name, default)
        except TypeError:
            raise TypeError(f"{kind.__name__} cannot be used as a {base.__name__}: write a class for it.") from None
    return instance
