"""Outcomes of calls that failed, in this process or in another."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from mage_envs.exceptions import MAX_REASON, cut, reason_of, stops

TRACEBACK = "Its traceback is in"
"""First words of the note that names the traceback's file, in an error that ends a command."""
MAX_SENT = 8 * MAX_REASON
"""Limit in bytes of an exception that is sent between processes unchanged."""
HANG, CRASH, MEMORY = "hang", "crash", "memory"
"""Kinds of `WorkerLost`: no answer within the deadline, the death of the process, and its limit of memory."""


class WorkerFailure(RuntimeError):
    """Failure of a worker process, which died or timed out while no outcome could be returned."""


class WorkerLost(NamedTuple):
    """Outcome of a call that lost its process."""

    kind: str
    reason: str
    """Reason in one line."""
    traceback: str = ""
    """Traceback of the process, if it could still write one."""


class CallError(NamedTuple):
    """Outcome of a call that raised an exception."""

    error: BaseException
    traceback: str
    """Traceback from the called function on, so that it is the same in any process."""


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function's result, or `CallError` with any exception that `stops` does not name."""
    try:
        return function(*arguments)
    except BaseException as error:
        if stops(error):
            raise
        return CallError(error, format_traceback(error))


def format_traceback(error: BaseException) -> str:
    """Return the traceback as text, cut, without the frame that caught it."""
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return cut("".join(traceback.format_exception(type(error), error, inner or error.__traceback__)))


def portable(outcome: CallError) -> CallError:
    """Return the outcome itself if its exception can be sent and is small, else one with a RuntimeError instead."""
    try:
        sent = pickle.dumps(outcome.error)
        if len(sent) <= MAX_SENT:
            # An exception that cannot be unpickled must fail here and not in the process that receives it.
            pickle.loads(sent)
            return outcome
    except Exception:
        # Pickling runs code of the exception's class, which may raise anything.
        pass
    return CallError(RuntimeError(reason_of(outcome.error)), outcome.traceback)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if the chain of causes contains a MemoryError."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
