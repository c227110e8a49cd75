"""The arguments after the colon of a name: counted and converted by the builder's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_CONVERTERS: dict[object, tuple[Callable[[str], object], str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (_truth, "true or false"),
}
"""Annotation to converter and its name in messages."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """The hint that an error message goes on with: the nearest known name as a question, or nothing."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def convert(spec: str, builder: Callable[..., object], texts: Sequence[str], skip: int) -> list[object]:
    """Values of `texts` for the parameters of `builder` after the first `skip`; raises `ValueError`.

    Parameters annotated `int`, `float` or `bool` are converted, all others get the text.
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
    return [_value(f"Opponent {spec!r}", text, parameter) for text, parameter in zip(texts, places)]


def options(label: str, builder: Callable[..., object], texts: Sequence[str]) -> dict[str, object]:
    """Keyword arguments of `builder` from texts such as `window=3`, converted likewise; raises `ValueError`.

    `label` begins the messages, as in `memory='amem:k_read=x'`.
    """
    known = {
        name: parameter
        for name, parameter in inspect.signature(builder).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in known:
            hint = nearest_name(name, known)
            raise ValueError(f"{label}: there is no option {name!r}.{hint} Options: {', '.join(known) or 'none'}.")
        if not equals or name in found:
            fault = "is given twice" if equals else f"needs a value, as in '{name}={known[name].default}'"
            raise ValueError(f"{label}: {name} {fault}.")
        found[name] = _value(label, value, known[name])
    missing = [name for name, parameter in known.items() if parameter.default is parameter.empty and name not in found]
    if missing:
        raise ValueError(f"{label} lacks {', '.join(missing)}; options follow a colon, as in 'name:{missing[0]}=...'.")
    return found


def _value(label: str, text: str, parameter: inspect.Parameter) -> object:
    annotation = parameter.annotation
    kind = annotation.__name__ if isinstance(annotation, type) else str(annotation).removesuffix(" | None")
    if kind not in _CONVERTERS:
        return text
    converter, named = _CONVERTERS[kind]
    try:
        return converter(text)
    except (ValueError, LookupError):
        raise ValueError(f"{label}: {parameter.name} must be {named}, got {text!r}.") from None
