"""Recording of the calls of named functions, with the values of expressions at the call and at the return."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
"""Characters of a line of the page."""
MAX_TEXT_LINES = 24
"""Lines of a text of several lines in a block."""
SIGNIFICANT_DIGITS = 4
"""Digits of a number. More would differ between processors, which add up float32 in different orders."""


@dataclass(frozen=True)
class Hop:
    """A function on the way, with the explanation and the values that the page shows."""

    function: Callable[..., Any]
    text: str
    arguments: tuple[str, ...]
    """Expressions of the function's arguments, evaluated at the call."""
    results: tuple[str, ...]
    """Expressions evaluated at the return, where `returned` is the returned value."""
    names: tuple[str, ...] = ()
    """Names for the parts of a returned tuple, for use in `results`."""
    calls: int = 1
    """Number of calls whose values the page shows."""

    @property
    def code(self) -> CodeType:
        return cast(FunctionType, self.function).__code__

    @property
    def name(self) -> str:
        return cast(FunctionType, self.function).__qualname__

    @property
    def file(self) -> str:
        return Path(self.code.co_filename).resolve().relative_to(ROOT).as_posix()


@dataclass
class RecordedCall:
    """One call of a hop's function."""

    hop: Hop
    depth: int
    """Number of recorded calls that it was made in."""
    arguments: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


class Recorder:
    """Context manager that records the calls of the hops' functions, in the order of the calls."""

    def __init__(self, hops: Sequence[Hop]) -> None:
        self._hops = {hop.code: hop for hop in hops}
        self.calls: list[RecordedCall] = []
        self._open: list[tuple[FrameType, RecordedCall]] = []

    def __enter__(self) -> Recorder:
        self._before = sys.getprofile()
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *exception: object) -> None:
        # A debugger or a coverage tool may have set a function of its own.
        sys.setprofile(self._before)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        hop = self._hops.get(frame.f_code)
        if hop is None:
            return
        # The values become text at once, because later code may change the objects.
        if event == "call":
            call = RecordedCall(hop, len(self._open), lines(hop, hop.arguments, dict(frame.f_locals)))
            self.calls.append(call)
            self._open.append((frame, call))
        elif event == "return" and self._open and self._open[-1][0] is frame:
            _, call = self._open.pop()
            parts = dict(zip(hop.names, argument, strict=True)) if hop.names else {}
            call.results = lines(hop, hop.results, {**frame.f_locals, **parts, "returned": argument})

    def calls_of(self, hop: Hop) -> list[RecordedCall]:
        """Return the calls whose values the page shows. Raises LookupError if there were fewer."""
        calls = [call for call in self.calls if call.hop is hop]
        if len(calls) < hop.calls:
            raise LookupError(
                f"{hop.name} ({hop.file}) was called {len(calls)} times, expected at least {hop.calls}. The code takes "
                "another way now: change the hops in dev/tour/hops.py."
            )
        return calls[: hop.calls]


def lines(hop: Hop, expressions: Sequence[str], scope: dict[str, Any]) -> list[str]:
    """Return one line or more per expression, with its value in the function's scope."""
    texts = []
    for expression in expressions:
        try:
            value = eval(expression, scope)
        except Exception as error:
            raise LookupError(
                f"{expression!r} has no value in {hop.name} ({hop.file}): {error!r}. "
                "Change the hop in dev/tour/hops.py."
            ) from error
        if isinstance(value, str) and "\n" in value:
            texts += [f"{expression} =", *text_lines(value)]
        else:
            texts.append(cut(f"{expression} = {format_value(value)}"))
    return texts


def format_value(value: Any) -> str:
    """Return a value as text that is equal in every process."""
    # Arrays and tensors, which print their numbers in a format of their own.
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return repr(float(f"{value:.{SIGNIFICANT_DIGITS}g}"))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_value(key)}: {format_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        opening, closing = "[]" if isinstance(value, list) else "()"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return opening + ", ".join(map(format_value, value)) + comma + closing
    if isinstance(value, str | int | None):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no short text. Show one of its attributes instead.")


def cut(line: str, width: int = WIDTH - 5) -> str:
    """Return the line, with an ellipsis at its end if it is longer than `width`."""
    return line if len(line) <= width else line[: width - 3] + "..."


def text_lines(text: str) -> list[str]:
    """Return a text of several lines behind a bar, without those after `MAX_TEXT_LINES`."""
    all_lines = text.splitlines()
    visible_lines = [cut(f"| {line}".rstrip()) for line in all_lines[:MAX_TEXT_LINES]]
    left_out = len(all_lines) - len(visible_lines)
    return visible_lines + ([f"... ({left_out} more lines)"] if left_out else [])
