"""Reads the word lists of `data` into the types that the rest of the package works with.

TYPES    `name; number; path; axes; median price` and, indented, the attribute groups. Number is one, plural, pair or
         mass; a star before the name holds the type out for the split `ood_type`.
GROUPS   `name: value | value`, of which a product has one. A value is its canonical form and, behind an equal sign,
         other ways to say it, each led by a form: a (adjective), w (with), m (made of), f (for), t (that).
Lines that start with a space go on with the line before.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import NamedTuple

from mage_envs.games.webshop.catalogue_maker.data import beauty, electronics, fashion, grocery, home
from mage_envs.games.webshop.catalogue_maker.data.options import POOLS

SEPARATOR = " › "


class Wording(NamedTuple):
    """One way to say an attribute."""

    form: str
    text: str
    plural: str
    """The text after a plural noun."""


class Attribute(NamedTuple):
    """Something a product may have, as the reward knows it and as people say it."""

    name: str
    wordings: tuple[Wording, ...]
    """The canonical one first."""
    shown: str
    """As titles print it."""


class Group(NamedTuple):
    """Attributes of which a product has exactly one."""

    name: str
    values: tuple[Attribute, ...]


class Axis(NamedTuple):
    """Something to choose, with its values and the class of each; values of one class match in the shop."""

    pool: str
    name: str
    values: tuple[tuple[str, str], ...]


class Type(NamedTuple):
    """A kind of product."""

    name: str
    number: str
    path: str
    """The category path, segments separated as in the official files."""
    axes: tuple[Axis, ...]
    price: float
    """Median, in dollars."""
    groups: tuple[Group, ...]
    held_out: bool
    department: Department
    title: str


class Department(NamedTuple):
    """A part of the shop with its own words."""

    name: str
    brands: tuple[str, ...]
    fillers: tuple[str, ...]
    benefits: tuple[str, ...]
    stories: tuple[str, ...]


@cache
def product_types() -> tuple[Type, ...]:
    """Every kind of product, department by department."""
    axes = {pool: _axis(pool, text) for pool, text in POOLS.items()}
    return tuple(kind for module in (fashion, beauty, home, grocery, electronics) for kind in _types(module, axes))


@cache
def siblings() -> dict[str, tuple[Type, ...]]:
    """For each type those of the same department, held out or not like it, that have most of its attribute groups."""
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
    """Headline case; small words inside stay small."""
    words = text.split(" ")
    return " ".join(
        word.upper() if word in _LETTERS else word if index and word in _SMALL else word[:1].upper() + word[1:]
        for index, word in enumerate(words)
    )


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
        raise ValueError(f"catalogue words: {text!r} must start with one of the forms a, w, m, f, t")
    return Wording(form, words, _plural(words) if form == "t" else words)


_PLURALS = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "ties": "tie"}


def _plural(clause: str) -> str:
    """A clause about one thing, about several: "dries fast" gives "dry fast"."""
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
