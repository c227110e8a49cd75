"""The arguments after the colon of an opponent's name: counted and converted by the builder's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

_CONVERTERS: dict[object, tuple[Callable[[str], object], str]] = {
    int: (int, "a whole number"),
    "int": (int, "a whole number"),
    float: (float, "a number"),
    "float": (float, "a number"),
}
"""Annotation (as a string too: `from __future__ import annotations`) to converter and its name in messages."""


def convert(spec: str, builder: Callable[..., object], texts: Sequence[str], skip: int) -> list[object]:
    """Values of `texts` for the parameters of `builder` after the first `skip`; raises `ValueError`.

    Parameters annotated `int` or `float` are converted, all others get the text.
    """
    parameters = list(inspect.signature(builder).parameters.values())
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][skip:]
    rest = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    names = ", ".join(p.name for p in places)
    if len(texts) > len(places) and not rest:
        allowed = f"at most {len(places)} ({names})" if places else "no arguments"
        raise ValueError(f"Opponent {spec!r} takes {allowed} after the colon, got {len(texts)}.")
    missing = [p.name for p in places[len(texts) :] if p.default is p.empty]
    if missing:
        raise ValueError(
            f"Opponent {spec!r} lacks {', '.join(missing)}; arguments follow a colon, as in 'name:{names}'."
        )
    places += rest * (len(texts) - len(places))
    return [_value(spec, text, parameter) for text, parameter in zip(texts, places)]


def _value(spec: str, text: str, parameter: inspect.Parameter) -> object:
    if parameter.annotation not in _CONVERTERS:
        return text
    converter, kind = _CONVERTERS[parameter.annotation]
    try:
        return converter(text)
    except ValueError:
        raise ValueError(f"Opponent {spec!r}: {parameter.name} must be {kind}, got {text!r}.") from None
