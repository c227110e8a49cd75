"""Exceptions of other code: which of them stop the suite, and how the others are told, cut to a length."""

from __future__ import annotations

from mage_envs.secrets import scrubbed

MAX_REASON = 10_000
"""Characters of a reason or a traceback, which logs, records and terminals show."""


class Interruption(BaseException):
    """Raised by this suite within code of others to stop it, which no `except Exception` there catches."""


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
    """Return the message of an exception, without secrets, cut. Reading it may raise."""
    try:
        # A cut comes last: it could leave the first half of a key, which nothing finds any more.
        return cut(scrubbed(str(error)))
    except Exception as second:
        return f"its message cannot be read ({type(second).__name__})"


def reason_of(error: BaseException) -> str:
    """Return the name and the message of an exception, cut."""
    return f"{type(error).__name__}: {message_of(error)}"
