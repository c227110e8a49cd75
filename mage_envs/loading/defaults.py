"""Defaults of a base class for classes that do not inherit from it."""

from __future__ import annotations

from typing import Any


def fill_in(instance: Any, base: type) -> Any:
    """Return the instance, which then has every public attribute of the base class that is not abstract.

    Missing attributes are added to the user's class once, so that callers need not probe an instance.

    Raises:
        TypeError: If the class cannot be changed, such as one that is written in C.
    """
    kind = type(instance)
    if isinstance(instance, base):
        return instance
    for name, default in vars(base).items():
        if name.startswith("_") or getattr(default, "__isabstractmethod__", False):
            continue
        values = [vars(part)[name] for part in kind.__mro__ if name in vars(part)]
        # The instance may have the attribute itself, or by `__getattr__`.
        if not values and hasattr(instance, name):
            continue
        # A default that was added to one parent must not hide the method of another.
        value = next((value for value in values if value is not default), default)
        if values and values[0] is value:
            continue
        try:
            setattr(kind, name, value)
        except (AttributeError, TypeError):
            raise TypeError(f"{kind.__name__} cannot be used as a {base.__name__}: write a class for it.") from None
    return instance


def overrides(instance: Any, base: type, *methods: str) -> bool:
    """Return True if an instance has one of the methods of the base class by its own definition."""
    # The function behind the method, because a method may also be set on the instance.
    own = (getattr(getattr(instance, method), "__func__", None) for method in methods)
    return any(function is not getattr(base, method) for function, method in zip(own, methods, strict=True))
