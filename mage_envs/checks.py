"""Checks of options, each mistake told in one line."""

from __future__ import annotations


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises ValueError where an option has an unknown value."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(map(repr, choices))}.")


def check_positive(name: str, value: int, most: int | None = None) -> None:
    """Raise ValueError unless `value` is a whole number of at least 1, and at most `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
    if most is not None and value > most:
        raise ValueError(f"{name}={value:,} must be at most {most:,}.")


def check_seconds(name: str, value: float) -> None:
    """Raises ValueError unless `value` is a number of seconds, or 0 for no limit."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name}={value!r} must be a number of seconds, or 0 for no limit.")
