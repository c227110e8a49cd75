"""Exceptions of code outside the suite: a test for those that stop it, and short messages for the others."""

from __future__ import annotations

from mage_envs.secrets import scrub

MAX_REASON = 10_000
"""Limit of characters of a reason or a traceback in logs, records and terminals."""


class Interruption(BaseException):
    """Exception that the suite raises inside other code to stop it; `except Exception` does not catch it."""


def stops(error: BaseException) -> bool:
    """Return True if an exception does not mean that the code failed: Ctrl-C, or an `Interruption`.

    A group of exceptions stops if one of its members does.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(stops, error.exceptions))
    return isinstance(error, KeyboardInterrupt | Interruption)


def cut(text: str) -> str:
    """Return the text, or its beginning and its end if it is longer than `MAX_REASON` characters."""
    if len(text) <= MAX_REASON:
        return text
    mark = f" [... {len(text) - MAX_REASON:,} characters left out ...] "
    half = (MAX_REASON - len(mark)) // 2
    return text[:half] + mark + text[-half:]


def message_of(error: BaseException) -> str:
    """Return the message of an exception without secrets, cut to `MAX_REASON` characters."""
    # `__str__` of a foreign exception is foreign code, and may raise an exception itself.
    try:
        # Remove secrets before cutting: half of a key would not be found.
        return cut(scrub(str(error)))
    except Exception as second:
        return f"its message cannot be read ({type(second).__name__})"


def reason_of(error: BaseException) -> str:
    """Return the name and the message of an exception, cut."""
    return f"{type(error).__name__}: {message_of(error)}"
