"""Word lists of the catalogue, which are the TOML files of the folder `words`.

A department has attribute groups and types of products. A product has one value of each of its type's groups. A value
is its canonical form and, after an equal sign, other wordings, separated by semicolons. Each wording starts with its
form: a (adjective), w (with), n (an absence, such as "no pockets"), m (made of), f (for), t (that). The number of a
type is one, plural, pair or mass. The types with `held_out` are reserved for the split `ood_type`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

SEPARATOR = " › "
FORMS = ("m", "w", "n", "f", "a", "t")
"""Forms of wordings, in the order in which they follow a noun."""
_DEPARTMENTS = ("fashion", "beauty", "home", "grocery", "electronics")


class Wording(NamedTuple):
    """One wording of an attribute."""

    form: str
    """Form of the wording: a, w, n, m, f or t."""
    text: str
    plural: str
    """Wording after a plural noun."""


class Attribute(NamedTuple):
    """An attribute of a product with its wordings."""

    name: str
    """Canonical form, which the reward compares."""
    wordings: tuple[Wording, ...]
    """Wordings, the canonical one first."""
    title_text: str
    """Wording in titles."""


class Group(NamedTuple):
    """A group of attributes. A product has exactly one of them."""

    name: str
    values: tuple[Attribute, ...]


class Axis(NamedTuple):
    """An option with its values. Values of one class match in the shop."""

    pool: str
    name: str
    values: tuple[tuple[str, str], ...]
    """(value, class) pairs."""


class Type(NamedTuple):
    """A kind of product."""

    name: str
    number: str
    path: str
    """Category path, with segments separated as in the official files."""
    axes: tuple[Axis, ...]
    price: float
    """Median price in dollars."""
    groups: tuple[Group, ...]
    held_out: bool
    department: Department
    title: str


class Department(NamedTuple):
    """A department of the shop with its own words."""

    name: str
    brands: list[str]
    fillers: list[str]
    benefits: list[str]
    stories: list[str]


@cache
def word_lists(name: str) -> dict[str, Any]:
    """Return the content of the file `words/<name>.toml`."""
    return tomllib.loads(files(__package__).joinpath("words", f"{name}.toml").read_text("utf-8"))


@cache
def product_types() -> tuple[Type, ...]:
    """Return all types of products, sorted by department."""
    axes = {pool: _axis(pool, **entry) for pool, entry in word_lists("options").items()}
    return tuple(kind for name in _DEPARTMENTS for kind in _types(word_lists(name), axes))


@cache
def siblings() -> dict[str, tuple[Type, ...]]:
    """Return, for each type, the similar types of its department, which share at least three attribute groups.

    Held-out types have only held-out siblings, and the others have only siblings that are not held out.
    """
    similar_types = {}
    groups = {kind.name: {group.name for group in kind.groups} for kind in product_types()}
    for kind in product_types():
        near = [
            candidate
            for candidate in product_types()
            if candidate.department is kind.department
            and candidate.held_out == kind.held_out
            and candidate is not kind
            and len(groups[kind.name] & groups[candidate.name]) >= 3
        ]
        similar_types[kind.name] = tuple(near)
    return similar_types


def headline(text: str) -> str:
    """Return the text in headline case. Small words stay in lower case unless they come first."""
    return " ".join(_headline_word(word, index == 0) for index, word in enumerate(text.split(" ")))


def _headline_word(word: str, is_first: bool) -> str:
    if word in _LETTERS:
        return word.upper()
    return word if word in _SMALL and not is_first else word[:1].upper() + word[1:]


_LETTERS_TEXT = "2k 4k 8k ac dpi gmo hd hdmi ipx7 led pbt pu rgb sd sls spf tv usb usda uv xl"
_LETTERS = frozenset(_LETTERS_TEXT.split())
_SMALL = frozenset({"and", "for", "of", "with", "in", "on", "the", "a", "to"})


def _axis(pool: str, axis: str, classes: list[list[str]]) -> Axis:
    return Axis(pool, axis, tuple((value, f"{axis}:{group[0]}") for group in classes for value in group))


def _wording(text: str) -> Wording:
    form, _, words = text.partition(" ")
    if form not in FORMS:
        raise ValueError(f"wording {text!r} must start with one of the forms {', '.join(FORMS)}")
    return Wording(form, words, _plural(words) if form == "t" else words)


_PLURALS = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "ties": "tie"}


def _plural(clause: str) -> str:
    """Return the plural of a clause: "dries fast" becomes "dry fast"."""
    first_word, space, remainder = clause.partition(" ")
    if first_word in {"never", "only", "barely", "just", "hardly"}:
        return f"{first_word} {_plural(remainder)}"
    if first_word in _PLURALS:
        first_word = _PLURALS[first_word]
    elif first_word.endswith("ies"):
        first_word = first_word[:-3] + "y"
    elif first_word.endswith(("shes", "ches", "sses", "xes")):
        first_word = first_word[:-2]
    elif first_word.endswith("s") and not first_word.endswith("ss"):
        first_word = first_word[:-1]
    return first_word + space + remainder


def _attribute(text: str) -> Attribute:
    wordings = tuple(map(_wording, text.replace(" = ", "; ").split("; ")))
    canonical = wordings[0]
    title_text = headline(canonical.text)
    return Attribute(canonical.text, wordings, f"for {title_text}" if canonical.form == "f" else title_text)


def _types(lists: dict[str, Any], axes: dict[str, Axis]) -> list[Type]:
    groups = {name: Group(name, tuple(map(_attribute, values))) for name, values in lists["groups"].items()}
    department = Department(**{field: lists[field] for field in Department._fields})
    return [
        Type(
            name=name,
            number=entry["number"],
            path=SEPARATOR.join([lists["root"], *entry["path"].split(" > ")]),
            axes=tuple(axes[pool] for pool in entry["axes"]),
            price=float(entry["price"]),
            groups=tuple(groups[group] for group in entry["groups"]),
            held_out=entry.get("held_out", False),
            department=department,
            title=headline(name),
        )
        for name, entry in lists["types"].items()
    ]
