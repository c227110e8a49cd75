"""Checks of options, with an error of one line for each mistake."""

from __future__ import annotations


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless an option has a known value.

    Args:
        name: Name of the option, for the message.
    """
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(map(repr, choices))}.")


def check_positive(name: str, value: int, limit: int | None = None) -> None:
    """Raise ValueError unless an option is a whole number of at least 1.

    Args:
        name: Name of the option, for the message.
        limit: Largest allowed value (default: no limit).
    """
    # In Python, bool is a subclass of int.
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
    if limit is not None and value > limit:
        raise ValueError(f"{name}={value:,} must be at most {limit:,}.")


def check_seconds(name: str, value: float) -> None:
    """Raise ValueError unless `value` is a number of seconds, or 0 for no limit."""
    # This form also refuses NaN, for which every comparison is False.
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name}={value!r} must be a number of seconds, or 0 for no limit.")
