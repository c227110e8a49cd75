"""What a call of code that may fail gives instead of its result, in this process or in another."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from mage_envs.exceptions import MAX_REASON, cut, reason_of, stops

TRACEBACK = "Its traceback is in"
"""Begins the note, in an error that ends a command, of the file where that is."""
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
