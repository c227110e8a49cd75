"""Parser of the word lists in `data`.

TYPES    `name; number; path; axes; median price` and, indented, the attribute groups. Number is one, plural, pair or
         mass. A star before the name reserves the type for the split `ood_type`.
GROUPS   `name: value | value`; a product has one value of each group. A value is its canonical form and, after an
         equal sign, other wordings. Each starts with its form: a (adjective), w (with), m (made of), f (for), t (that).

A line that starts with a space continues the line before it.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import NamedTuple

from mage_envs.games.webshop.catalogue_maker.data import beauty, electronics, fashion, grocery, home
from mage_envs.games.webshop.catalogue_maker.data.options import POOLS

SEPARATOR = " › "


class Wording(NamedTuple):
    """One wording of an attribute."""

    form: str
    """Form of the wording: a, w, m, f or t."""
    text: str
    plural: str
    """Wording after a plural noun."""


class Attribute(NamedTuple):
    """An attribute of a product with its wordings."""

    name: str
    """Canonical form, which the reward compares."""
    wordings: tuple[Wording, ...]
    """Wordings, the canonical one first."""
    shown: str
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
    brands: tuple[str, ...]
    fillers: tuple[str, ...]
    benefits: tuple[str, ...]
    stories: tuple[str, ...]


@cache
def product_types() -> tuple[Type, ...]:
    """Return all types of products, sorted by department."""
    axes = {pool: _axis(pool, text) for pool, text in POOLS.items()}
    return tuple(kind for module in (fashion, beauty, home, grocery, electronics) for kind in _types(module, axes))


@cache
def siblings() -> dict[str, tuple[Type, ...]]:
    """Return, for each type, the similar types of its department, which share at least three attribute groups.

    Held-out types have only held-out siblings, and the others have only siblings that are not held out.
    """
    found = {}
    groups = {kind.name: {group.name for group in kind.groups} for kind in product_types()}
    for kind in product_types():
        near = [
            other
            for other in product_types()
            if other.department is kind.department
            and other.held_out == kind.held_out
            and other is not kind
            and len(groups[kind.name] & groups[other.name]) >= 3
        ]
        found[kind.name] = tuple(near)
    return found


def headline(text: str) -> str:
    """Return the text in headline case. Small words stay in lower case unless they come first."""
    return " ".join(_headline_word(word, index == 0) for index, word in enumerate(text.split(" ")))


def _headline_word(word: str, first: bool) -> str:
    if word in _LETTERS:
        return word.upper()
    return word if word in _SMALL and not first else word[:1].upper() + word[1:]


_LETTERS = frozenset(
    {
        "2k",
        "4k",
        "8k",
        "ac",
        "dpi",
        "gmo",
        "hd",
        "hdmi",
        "ipx7",
        "led",
        "pbt",
        "pu",
        "rgb",
        "sd",
        "sls",
        "spf",
        "tv",
        "usb",
        "usda",
        "uv",
        "xl",
    }
)
_SMALL = frozenset({"and", "for", "of", "with", "in", "on", "the", "a", "to"})


def _lines(text: str) -> list[str]:
    return text.strip().replace("\n ", " ").split("\n")


def _parts(text: str, separator: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(separator) if part.strip()]


def _axis(pool: str, text: str) -> Axis:
    name, _, values = text.partition(": ")
    classes = [_parts(group, ",") for group in values.split("|")]
    return Axis(pool, name, tuple((value, f"{name}:{group[0]}") for group in classes for value in group))


def _wording(text: str) -> Wording:
    form, _, words = text.partition(" ")
    if form not in {"a", "w", "m", "f", "t"}:
        raise ValueError(f"wording {text!r} must start with one of the forms a, w, m, f, t")
    return Wording(form, words, _plural(words) if form == "t" else words)


_PLURALS = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "ties": "tie"}


def _plural(clause: str) -> str:
    """Return the plural of a clause: "dries fast" becomes "dry fast"."""
    first, space, rest = clause.partition(" ")
    if first in {"never", "only", "barely", "just", "hardly"}:
        return f"{first} {_plural(rest)}"
    if first in _PLURALS:
        first = _PLURALS[first]
    elif first.endswith("ies"):
        first = first[:-3] + "y"
    elif first.endswith(("shes", "ches", "sses", "xes")):
        first = first[:-2]
    elif first.endswith("s") and not first.endswith("ss"):
        first = first[:-1]
    return first + space + rest


def _attribute(text: str) -> Attribute:
    canonical, _, others = text.partition(" = ")
    wordings = tuple(map(_wording, [canonical, *_parts(others, ";")]))
    first = wordings[0]
    shown = headline(first.text)
    return Attribute(first.text, wordings, f"for {shown}" if first.form == "f" else shown)


def _groups(module: ModuleType) -> dict[str, Group]:
    groups = {}
    for line in _lines(module.GROUPS):
        name, _, values = line.partition(": ")
        groups[name] = Group(name, tuple(map(_attribute, _parts(values, "|"))))
    return groups


def _types(module: ModuleType, axes: dict[str, Axis]) -> list[Type]:
    groups = _groups(module)
    department = Department(
        name=module.NAME,
        brands=tuple(_parts(module.BRANDS, ",")),
        fillers=tuple(_parts(module.FILLERS, ",")),
        benefits=tuple(_parts(module.BENEFITS, ";")),
        stories=tuple(_lines(module.STORIES)),
    )
    kinds = []
    for line in _lines(module.TYPES):
        head, number, path, options, rest = _parts(line, ";")
        price, _, names = rest.partition(" ")
        kinds.append(
            Type(
                name=head.lstrip("*"),
                number=number,
                path=SEPARATOR.join([module.ROOT, *path.split(" > ")]),
                axes=tuple(axes[name] for name in _parts(options, ",")),
                price=float(price),
                groups=tuple(groups[name] for name in _parts(names, ",")),
                held_out=head.startswith("*"),
                department=department,
                title=headline(head.lstrip("*")),
            )
        )
    return kinds
