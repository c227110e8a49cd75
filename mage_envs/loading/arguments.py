"""Names with arguments: the one grammar of opponents, memories, encoders, agents, executors and sampling settings.

    NAME[:ARGUMENT,...]

A specification is a call of the function or class that is registered under the name. `reflexion:2,max_tokens=500`
calls `Reflexion(2, max_tokens=500)`. The rules are:

* Arguments are separated by commas. Those without a key come first, in the order of the function's parameters.
* `KEY=VALUE` passes a value by the parameter's name.
* A value is converted if the parameter is annotated `int`, `float` or `bool` (`true`, `on`, `false`, `off`).
* A parameter that is annotated `Rest` receives all the remaining text, commas included. It takes folders, addresses and
  specifications of other names.
* If a name is not registered, `MODULE:CLASS[:ARGUMENT,...]` imports the class. Opponents, memories and encoders
  allow this.

docs/names.md describes the grammar with examples.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Annotated, TypeVar

T = TypeVar("T")
Rest = Annotated[str, "rest"]
"""Annotation of a text parameter that receives the rest of a specification, commas included."""


class SpecError(ValueError):
    """Error for invalid arguments of a specification. The message is one line."""


@dataclass(frozen=True)
class Spec:
    """A specification, split into its name and the text of its arguments."""

    name: str
    """Registered name, or `module:Class`."""
    arguments: str | None = None
    """Text after the colon of the name, or None without a colon."""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _truth(text: str) -> bool:
    return {"true": True, "on": True, "false": False, "off": False}[text.lower()]


_CONVERTERS: dict[str, tuple[Callable[[str], object], str]] = {
    "int": (int, "a whole number"),
    "float": (_finite, "a number"),
    "bool": (_truth, "true or false"),
}
"""Converter of each annotation, with the expected value for error messages."""


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return a hint for an error message, `Did you mean ...?`, or an empty string if no known name is near."""
    near = get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def parse(text: str, is_registered: Callable[[str], bool] = lambda name: True) -> Spec:
    """Split a specification. If its name is not registered and it starts with `module:Class`, that is the name."""
    name, colon, arguments = text.partition(":")
    # Registered names have priority over modules of the same name.
    if colon and not is_registered(name):
        attribute, second_colon, remainder = arguments.partition(":")
        if attribute.isidentifier() and all(part.isidentifier() for part in name.split(".")):
            name, colon, arguments = f"{name}:{attribute}", second_colon, remainder
    return Spec(name, arguments if colon else None)


def call(label: str, spec: Spec, builder: Callable[..., T], *leading: object) -> T:
    """Call a function or class with the arguments of a specification.

    Args:
        label: First words of error messages, as in `Opponent 'mcts:many'`.
        builder: Function or class to call.
        leading: Arguments before those of the specification.

    Raises:
        SpecError: If the arguments do not fit the parameters.
    """
    bound = bind(label, spec, builder, *leading)
    return builder(*bound.args, **bound.kwargs)


def bind(label: str, spec: Spec, builder: Callable[..., object], *leading: object) -> inspect.BoundArguments:
    """Return the converted arguments of a specification by parameter. The arguments are those of `call`.

    Raises:
        SpecError: If an argument is unknown, missing, repeated, empty or not convertible, or if there are too many.
    """
    parameters = _Parameters(builder, len(leading))
    by_place, by_name = parameters.sort(label, spec)
    places = parameters.places(len(by_place))
    if len(by_place) > len(places):
        names = ", ".join(parameter.name for parameter in places)
        raise SpecError(f"{label} takes at most {len(places)} ({names}) after the colon, got {len(by_place)}.")
    filled = {parameter.name for parameter in places}
    if missing := [name for name in parameters.required if name not in filled | by_name.keys()]:
        raise SpecError(
            f"{label} needs {', '.join(missing)}. Add arguments after a colon, as in '{spec.name}:{','.join(missing)}'."
        )
    return inspect.signature(builder).bind(
        *leading,
        *(_value(label, text, parameter) for text, parameter in zip(by_place, places, strict=True)),
        **{name: _value(label, text, parameters.by_name[name]) for name, text in by_name.items()},
    )


def lacks_arguments(spec: Spec, builder: Callable[..., object], skip: int) -> bool:
    """Return True if a specification has fewer arguments than its function requires.

    Args:
        builder: Function or class that it calls.
        skip: Number of first parameters of `builder` that are not in the specification.
    """
    parameters = _Parameters(builder, skip)
    return len(parameters.split(spec)) < len(parameters.required)


class _Parameters:
    """Parameters of a function or class that a specification can fill, without the first `skip`."""

    def __init__(self, builder: Callable[..., object], skip: int) -> None:
        # A partial's own keywords are fixed, although its signature shows them as defaults.
        fixed = builder.keywords if isinstance(builder, partial) else {}
        parameters = [p for p in list(inspect.signature(builder).parameters.values())[skip:] if p.name not in fixed]
        self._ordered = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._more = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
        self.by_name = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.required = [p.name for p in (*self._ordered, *keyword_only) if p.default is p.empty]

    def places(self, count: int) -> list[inspect.Parameter]:
        """Return the parameters of the first `count` arguments without a key, fewer if there are not so many."""
        return [*self._ordered, *self._more * (count - len(self._ordered))][:count]

    def _place(self, index: int) -> inspect.Parameter | None:
        """Return the parameter of the argument without a key at this index, or None if there are not so many."""
        places = self.places(index + 1)
        return places[index] if index < len(places) else None

    def split(self, spec: Spec) -> list[str]:
        """Return the texts of the arguments."""
        if spec.arguments is None:
            return []
        rests = [index for index, parameter in enumerate(self._ordered) if _kind(parameter) == "Rest"]
        return [text.strip() for text in spec.arguments.split(",", rests[0] if rests else -1)]

    def sort(self, label: str, spec: Spec) -> tuple[list[str], dict[str, str]]:
        """Return the texts of the arguments without a key, and of those with one by parameter."""
        texts = self.split(spec)
        if texts and not (self._ordered or self._more or self.by_name):
            raise SpecError(f"{label} takes no arguments after the colon, got {len(texts)}.")
        by_place: list[str] = []
        by_name: dict[str, str] = {}
        for text in texts:
            if not text:
                raise SpecError(f"{label} has an empty argument. Complete it, or remove the ':' or ',' before it.")
            key, equals, value = (part.strip() for part in text.partition("="))
            parameter = self.by_name.get(key)
            positional = self._place(len(by_place))
            if positional is not None and _kind(positional) == "Rest":
                by_place.append(text)
            elif parameter is not None and equals:
                if key in by_name or parameter in self.places(len(by_place)):
                    raise SpecError(f"{label}: {key} is given twice.")
                by_name[key] = value
            # A parameter's own name may be a text, as `first` in `switch:first,last,2`, but no number.
            elif parameter is not None and (by_name or positional is None or _kind(positional) in _CONVERTERS):
                example = "..." if parameter.default in (parameter.empty, None) else parameter.default
                raise SpecError(f"{label}: {key} needs a value, as in '{key}={example}'.")
            elif self._takes_place(key if equals else "") and not by_name:
                by_place.append(text)
            else:
                raise SpecError(
                    f"{label}: there is no option {key!r}.{nearest_name(key, self.by_name)} "
                    f"Options: {', '.join(self.by_name) or 'none'}."
                )
        return by_place, by_name

    def _takes_place(self, key: str) -> bool:
        """Return True if a text with this unknown key, or with none, can be an argument without a key."""
        # A text such as `a/b=c` has no key. A function with *texts receives unknown keys as texts.
        return bool(self._more or (self._ordered and not key.isidentifier()))


def _value(label: str, text: str, parameter: inspect.Parameter) -> object:
    kind = _kind(parameter)
    if kind not in _CONVERTERS:
        return text
    converter, expectation = _CONVERTERS[kind]
    try:
        return converter(text)
    except (ValueError, LookupError):
        raise SpecError(f"{label}: {parameter.name} must be {expectation}, got {text!r}.") from None


def _kind(parameter: inspect.Parameter) -> str:
    """Return the name of a parameter's annotation, without `| None`."""
    annotation = parameter.annotation
    if annotation in (Rest, Rest | None):
        return "Rest"
    # Under `from __future__ import annotations`, annotations are texts. Otherwise they may be classes.
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).removesuffix(" | None")
