"""What a call of code that may fail gives instead of its result, in this process or in another."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

TRACEBACK = "Its traceback is in"
"""Begins the note, in an error that ends a command, of the file where that is."""
MAX_REASON = 10_000
"""Characters of a reason or a traceback, which logs, records and terminals show."""
MAX_SENT = 8 * MAX_REASON
"""Bytes of an exception that is sent between processes as it is."""
HANG, CRASH, MEMORY = "hang", "crash", "memory"
"""Kinds of `Lost`: no answer within the deadline; the process died; it reached its limit of memory."""


class WorkerFailure(RuntimeError):
    """A worker process died, or did not answer in time, where no outcome can say so."""


class Lost(NamedTuple):
    """The call took its process with it."""

    kind: str
    reason: str
    """One line."""
    traceback: str = ""
    """Where the process was, as far as it could still be asked."""


class Raised(NamedTuple):
    """The call raised."""

    error: BaseException
    traceback: str
    """From the called function on, so that it is the same in any process."""


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function's result, or `Raised` with any exception that `stops` does not name."""
    try:
        return function(*arguments)
    except BaseException as error:
        if stops(error):
            raise
        return Raised(error, told(error))


class Interruption(BaseException):
    """Raised by this suite within code of others to stop it, which no `except Exception` there catches."""


def stops(error: BaseException) -> bool:
    """Return True if an exception is no failure of the code that raised it: Ctrl-C, or an `Interruption`.

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
    """Return the message of an exception, cut. Its class may be anybody's, so that even that may raise."""
    try:
        return cut(str(error))
    except Exception as second:
        return f"its message cannot be read ({type(second).__name__})"


def reason_of(error: BaseException) -> str:
    """Return the name and the message of an exception, cut."""
    return f"{type(error).__name__}: {message_of(error)}"


def told(error: BaseException) -> str:
    """Return the traceback as text, cut, without the frame that caught it."""
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return cut("".join(traceback.format_exception(type(error), error, inner or error.__traceback__)))


def portable(outcome: Raised) -> Raised:
    """Return the outcome itself if its exception can be sent and is small, else one with a RuntimeError instead."""
    try:
        sent = pickle.dumps(outcome.error)
        if len(sent) <= MAX_SENT:
            pickle.loads(sent)
            return outcome
    except Exception:  # pickling runs code of the exception's class, which may raise anything
        pass
    return Raised(RuntimeError(reason_of(outcome.error)), outcome.traceback)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a MemoryError is in the chain of causes."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
