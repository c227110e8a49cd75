"""Products as the shop reads them: the original's normalisation of its raw entries, and their stored form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from mage_envs.games.webshop.chance import uniform

NO_PRICE = 100.0
"""What a product without a price costs."""
NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_ASIN = 10
_NOT_A_NUMBER = re.compile(r"[^\d.]")


class MalformedProduct(ValueError):
    """A raw entry that is no product; the message names the product and the field."""


class MalformedAttributes(MalformedProduct):
    """The product's entry in the file of attributes is none."""


class MalformedAnnotation(MalformedProduct):
    """An instruction that a person wrote for the product is none."""


class Annotation(NamedTuple):
    """One instruction that a person wrote for a product."""

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    """Option values, or (axis, value) pairs where the file has an object."""


class ProductStanding(NamedTuple):
    """How a goal's product stands among the results of the shop's own search."""

    rank: int
    """Its place, from 1, when the instruction is the query; 0 where it is not among the results."""
    near_misses: int
    """Products among the first 20 of those results that earn a third of the reward or more, but not all."""
    alternatives: int
    """Other products that earn the full reward, among all results of the queries that it took to find it."""


class MadeGoal(NamedTuple):
    """What a goal asks for, as it comes with a generated product."""

    split: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    price_upper: float
    standing: ProductStanding | None = None


class Product(NamedTuple):
    """A product after the original's normalisation, with the instructions that may ask for it."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    low: float
    high: float
    options: dict[str, tuple[str, ...]]
    """Axis to its values, both lower case, in page order."""
    attributes: tuple[str, ...]
    """Hidden attributes, which the reward reads."""
    query: str
    category: str
    product_category: str
    image: str
    option_images: dict[str, str]
    instruction: str | None = None
    """Start of the synthetic instructions, None where there are none."""
    instruction_attributes: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    made: tuple[MadeGoal, ...] = ()

    def price(self, seed: int) -> float:
        """What it costs: its price, or a draw from its range by (`seed`, asin)."""
        if self.low == self.high:
            return self.low
        return self.low + (self.high - self.low) * uniform(seed, self.asin, "price")

    def indexed_text(self) -> str:
        """What the search engine sees: title, description, first bullet and options, lower case."""
        options = ", and ".join(f"{axis}: {', '.join(values)}" for axis, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first, options)).lower()

    def to_record(self) -> bytes:
        """The stored form: one JSON array."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def from_record(record: bytes) -> Product:
    """The product that `to_record` wrote."""
    values = dict(zip(Product._fields, json.loads(record.decode("utf-8", "surrogatepass")), strict=True))
    for field in ("bullets", "attributes", "instruction_attributes"):
        values[field] = tuple(values[field])
    values["options"] = {axis: tuple(choices) for axis, choices in values["options"].items()}
    values["annotations"] = tuple(
        Annotation(text, tuple(wanted), _options(chosen)) for text, wanted, chosen in values["annotations"]
    )
    values["made"] = tuple(
        MadeGoal(
            split=split,
            instruction=text,
            attributes=tuple(wanted),
            options=_options(chosen),
            price_upper=upper,
            standing=None if standing is None else ProductStanding(*standing),
        )
        for split, text, wanted, chosen, upper, standing in values["made"]
    )
    return Product(**values)


def _options(stored: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(option) if isinstance(option, list) else option for option in stored)


def is_kept(raw: Mapping[str, Any]) -> bool:
    """Whether the original loads this entry at all, repetitions aside."""
    asin = raw.get("asin")
    if not isinstance(asin, str) or not asin:
        raise MalformedProduct(f"a product has no 'asin' but {asin!r}")
    return asin != "nan" and len(asin) <= LONGEST_ASIN


def normalise(
    raw: Mapping[str, Any],
    instructions: Mapping[str, Any] | None = None,
    annotations: Sequence[Mapping[str, Any]] = (),
    made: Sequence[MadeGoal] = (),
) -> Product:
    """A product from its raw entry, its entry in the file of attributes, and people's instructions for it.

    Raises MalformedProduct where the original would fail on it.
    """
    asin = str(raw["asin"])
    low, high, tag = _pricing(asin, raw.get("pricing"))
    options, images = _axes(asin, raw.get("customization_options"))
    about = instructions or {}
    pictures = raw.get("images") or ()
    return Product(
        asin=asin,
        title=_text(asin, raw, "name"),
        description=_text(asin, raw, "full_description"),
        bullets=_bullets(asin, raw),
        price_tag=tag,
        low=low,
        high=high,
        options=options,
        attributes=_listed(asin, "attributes", about.get("attributes", NO_ATTRIBUTES)),
        query=_text(asin, raw, "query").lower().strip(),
        category=_text(asin, raw, "category"),
        product_category=_text(asin, raw, "product_category"),
        image=str(pictures[0]) if pictures else "",
        option_images=images,
        instruction=about.get("instruction"),
        instruction_attributes=_listed(asin, "instruction_attributes", about.get("instruction_attributes") or ()),
        annotations=tuple(_annotation(asin, entry) for entry in annotations),
        made=tuple(made),
    )


def _text(asin: str, raw: Mapping[str, Any], field: str) -> str:
    """A field of text; missing and null count as empty."""
    value = raw.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedProduct(f"product {asin}: {field!r} must be a text, not {value!r:.60}")
    return value


def _listed(asin: str, field: str, values: object) -> tuple[str, ...]:
    """A list of the file of attributes."""
    return _strings(asin, field, values, MalformedAttributes)


def _strings(
    asin: str, field: str, values: object, error: type[MalformedProduct] = MalformedProduct
) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise error(f"product {asin}: {field!r} must be a list of texts, not {values!r:.60}")
    return tuple(values)


def _bullets(asin: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    values = raw.get("small_description")
    if values is None:
        return ()
    return _strings(asin, "small_description", values if isinstance(values, list) else [values])


def _pricing(asin: str, pricing: object) -> tuple[float, float, str]:
    """(lowest price, highest price, tag as shown)."""
    if not pricing:
        return NO_PRICE, NO_PRICE, f"${NO_PRICE}"
    try:
        prices = [float(Decimal(_NOT_A_NUMBER.sub("", part))) for part in str(pricing).split("$")[1:]]
    except InvalidOperation:
        prices = []
    if not prices:
        raise MalformedProduct(f"product {asin}: 'pricing' must look like '$24.50' or '$8 - $9', not {pricing!r:.60}")
    if len(prices) == 1:
        return prices[0], prices[0], f"${prices[0]}"
    return prices[0], prices[1], f"${prices[0]} to ${prices[1]}"


def _axes(asin: str, raw: object) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The option axes with their values, and the image of each value."""
    axes: dict[str, tuple[str, ...]] = {}
    images: dict[str, str] = {}
    if not raw:
        return axes, images
    if not isinstance(raw, Mapping):
        raise MalformedProduct(f"product {asin}: 'customization_options' must be an object, not {raw!r:.60}")
    for axis, choices in raw.items():
        if choices is None:
            continue
        values = []
        for choice in _choices(asin, axis, choices):
            value = choice["value"].strip().replace("/", " | ").lower()
            values.append(value)
            images[value] = str(choice.get("image") or "")
        axes[axis.lower()] = tuple(values)
    return axes, {value: image for value, image in images.items() if image}


def _choices(asin: str, axis: str, choices: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(choices, list):
        raise MalformedProduct(f"product {asin}: the options {axis!r} must be a list, not {choices!r:.60}")
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("value"), str):
            raise MalformedProduct(f"product {asin}: an option of {axis!r} has no text 'value': {choice!r:.60}")
        yield choice


def _annotation(asin: str, entry: Mapping[str, Any]) -> Annotation:
    try:
        chosen, text = entry["instruction_options"], entry["instruction"]
        wanted = _strings(asin, "instruction_attributes", entry["instruction_attributes"], MalformedAnnotation)
    except KeyError as error:
        raise MalformedAnnotation(f"product {asin}: an instruction by a person has no {error}") from error
    if isinstance(chosen, Mapping):
        return Annotation(str(text), wanted, tuple(chosen.items()))
    return Annotation(str(text), wanted, _strings(asin, "instruction_options", chosen, MalformedAnnotation))
