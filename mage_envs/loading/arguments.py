"""Arguments after the colon of a name, counted and converted by the builder's signature."""

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
"""Converter of each annotation, with the expected value for error messages."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint for an error message, `Did you mean ...?`, or an empty string if no known name is near."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def convert(spec: str, builder: Callable[..., object], texts: Sequence[str], skip: int) -> list[object]:
    """Convert positional arguments.

    Args:
        spec: Name with its arguments, for error messages.
        builder: Function that receives the arguments.
        texts: Arguments as texts.
        skip: Number of first parameters of `builder` that are not in `texts`.

    Returns:
        Values of the parameters. Those annotated `int`, `float` or `bool` are converted, the others stay texts.

    Raises:
        ValueError: If the number of arguments is wrong, or if one cannot be converted.
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
            f"Opponent {spec!r} needs {', '.join(missing)}. Add arguments after a colon, as in 'name:{names}'."
        )
    places += rest * (len(texts) - len(places))
    return [_value(f"Opponent {spec!r}", text, parameter) for text, parameter in zip(texts, places)]


def options(label: str, builder: Callable[..., object], texts: Sequence[str]) -> dict[str, object]:
    """Convert keyword arguments such as `window=3`.

    Args:
        label: First words of error messages, as in `memory='amem:k_read=x'`.
        builder: Function that receives the arguments.
        texts: Arguments as texts.

    Returns:
        Values by name, converted like those of `convert`.

    Raises:
        ValueError: If an option is unknown, missing or given twice, or if a value is missing or invalid.
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
        raise ValueError(
            f"{label} needs {', '.join(missing)}. Add options after a colon, as in 'name:{missing[0]}=...'."
        )
    return found


def _value(label: str, text: str, parameter: inspect.Parameter) -> object:
    # Under `from __future__ import annotations`, annotations are texts. Otherwise they may be classes.
    annotation = parameter.annotation
    kind = annotation.__name__ if isinstance(annotation, type) else str(annotation).removesuffix(" | None")
    if kind not in _CONVERTERS:
        return text
    converter, named = _CONVERTERS[kind]
    try:
        return converter(text)
    except (ValueError, LookupError):
        raise ValueError(f"{label}: {parameter.name} must be {named}, got {text!r}.") from None
