"""Products of the shop: the original's normalisation of raw entries, and the stored form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from mage_envs.games.webshop.chance import uniform

NO_PRICE = 100.0
"""Price in dollars of a product without a price."""
UNLIMITED = 1_000_000.0
"""Price limit of a goal without a limit, in dollars."""
NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_ASIN = 10
_NOT_A_NUMBER = re.compile(r"[^\d.]")


class MalformedProduct(ValueError):
    """A raw entry that is not a valid product. The message names the product and the field."""


class MalformedAttributes(MalformedProduct):
    """An invalid entry of the product in the file of attributes."""


class MalformedAnnotation(MalformedProduct):
    """An invalid human instruction for the product."""


class Annotation(NamedTuple):
    """One human instruction for a product."""

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    """Option values, or (axis, value) pairs if the file has an object."""


class MadeGoal(NamedTuple):
    """The requirements of a goal, as stored with a generated product."""

    split: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    price_upper: float


class Product(NamedTuple):
    """A product after the original's normalisation, with the data of its goals."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    price_tag: str
    low: float
    high: float
    options: dict[str, tuple[str, ...]]
    """Values by axis, both in lower case and in the order of the page."""
    attributes: tuple[str, ...]
    """Hidden attributes, which only the reward uses."""
    query: str
    category: str
    product_category: str
    image: str
    option_images: dict[str, str]
    instruction: str | None = None
    """Start of the synthetic instructions, or None if the product has none."""
    instruction_attributes: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    made_goals: tuple[MadeGoal, ...] = ()

    def price(self, seed: int) -> float:
        """Return the price in dollars, drawn from the price range by (`seed`, asin) if there is a range."""
        if self.low == self.high:
            return self.low
        return self.low + (self.high - self.low) * uniform(seed, self.asin, "price")

    def search_text(self) -> str:
        """Return the text for the search engine: title, description, first bullet and options, in lower case."""
        options = ", and ".join(f"{axis}: {', '.join(values)}" for axis, values in self.options.items())
        first_bullet = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first_bullet, options)).lower()

    def to_record(self) -> bytes:
        """Return the stored form: one JSON array."""
        # Scraped texts can contain lone surrogates, which strict UTF-8 rejects.
        return json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def from_record(record: bytes) -> Product:
    """Return the product that `to_record` stored."""
    values = json.loads(record.decode("utf-8", "surrogatepass"))
    if len(values) != len(Product._fields):
        raise ValueError(f"a stored product must have {len(Product._fields)} fields, got {len(values)}")
    # JSON has no tuples, so lists become tuples again, which can be hashed and cannot be changed.
    for index in _LISTED:
        values[index] = tuple(values[index])
    values[_OPTIONS] = {axis: tuple(choices) for axis, choices in values[_OPTIONS].items()}
    values[_ANNOTATIONS] = tuple(
        [Annotation(text, tuple(attributes), _options(options)) for text, attributes, options in values[_ANNOTATIONS]]
    )
    values[_MADE] = tuple(
        [
            MadeGoal._make((split, text, tuple(attributes), _options(options), upper))
            for split, text, attributes, options, upper in values[_MADE]
        ]
    )
    return Product._make(values)


_LISTED = tuple(map(Product._fields.index, ("bullets", "attributes", "instruction_attributes")))
_OPTIONS, _ANNOTATIONS, _MADE = map(Product._fields.index, ("options", "annotations", "made_goals"))


def _options(stored: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([tuple(option) if isinstance(option, list) else option for option in stored])


def is_kept(raw: Mapping[str, Any]) -> bool:
    """Return True if the original loads this entry, repeated entries aside. Raises MalformedProduct without asin."""
    asin = raw.get("asin")
    if not isinstance(asin, str) or not asin:
        raise MalformedProduct(f"the 'asin' of a product must be a non-empty string, got {asin!r}")
    return asin != "nan" and len(asin) <= LONGEST_ASIN


def normalise(
    raw: Mapping[str, Any],
    instructions: Mapping[str, Any] | None = None,
    annotations: Sequence[Mapping[str, Any]] = (),
    made_goals: Sequence[MadeGoal] = (),
) -> Product:
    """Return the product of a raw entry.

    Args:
        raw: Entry in the schema of `items_shuffle.json`.
        instructions: Entry of the product in the file of attributes, if there is one.
        annotations: Human instructions for the product.
        made_goals: Goals of a generated product.

    Raises:
        MalformedProduct: If the original would fail on the entry.
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
        attributes=_parse_list(asin, "attributes", about.get("attributes", NO_ATTRIBUTES)),
        query=_text(asin, raw, "query").lower().strip(),
        category=_text(asin, raw, "category"),
        product_category=_text(asin, raw, "product_category"),
        image=str(pictures[0]) if pictures else "",
        option_images=images,
        instruction=about.get("instruction"),
        instruction_attributes=_parse_list(asin, "instruction_attributes", about.get("instruction_attributes") or ()),
        annotations=tuple(_annotation(asin, entry) for entry in annotations),
        made_goals=tuple(made_goals),
    )


def _text(asin: str, raw: Mapping[str, Any], field: str) -> str:
    """Return a text field. A field that is missing or null is empty."""
    value = raw.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedProduct(f"product {asin}: {field!r} must be a string, got {value!r:.60}")
    return value


def _parse_list(asin: str, field: str, values: object) -> tuple[str, ...]:
    """Return a list from the file of attributes. Raises MalformedAttributes if it is not a list of strings."""
    return _strings(asin, field, values, MalformedAttributes)


def _strings(
    asin: str, field: str, values: object, error: type[MalformedProduct] = MalformedProduct
) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise error(f"product {asin}: {field!r} must be a list of strings, got {values!r:.60}")
    return tuple(values)


def _bullets(asin: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    values = raw.get("small_description")
    if values is None:
        return ()
    return _strings(asin, "small_description", values if isinstance(values, list) else [values])


def _pricing(asin: str, pricing: object) -> tuple[float, float, str]:
    """Return (lowest price, highest price, price tag of the page)."""
    if not pricing:
        return NO_PRICE, NO_PRICE, f"${NO_PRICE}"
    try:
        # The text before the first dollar sign is not a price.
        prices = [float(Decimal(_NOT_A_NUMBER.sub("", part))) for part in str(pricing).split("$")[1:]]
    except InvalidOperation:
        prices = []
    if not prices:
        raise MalformedProduct(f"product {asin}: 'pricing' must be as in '$24.50' or '$8 - $9', got {pricing!r:.60}")
    if len(prices) == 1:
        return prices[0], prices[0], f"${prices[0]}"
    return prices[0], prices[1], f"${prices[0]} to ${prices[1]}"


def _axes(asin: str, raw: object) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the option axes with their values, and the image of each value."""
    axes: dict[str, tuple[str, ...]] = {}
    images: dict[str, str] = {}
    if not raw:
        return axes, images
    if not isinstance(raw, Mapping):
        raise MalformedProduct(f"product {asin}: 'customization_options' must be an object, got {raw!r:.60}")
    for axis, choices in raw.items():
        if choices is None:
            continue
        values = []
        for choice in _choices(asin, axis, choices):
            # The original replaces slashes, probably because the options are part of its URLs.
            value = choice["value"].strip().replace("/", " | ").lower()
            values.append(value)
            images[value] = str(choice.get("image") or "")
        axes[axis.lower()] = tuple(values)
    return axes, {value: image for value, image in images.items() if image}


def _choices(asin: str, axis: str, choices: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(choices, list):
        raise MalformedProduct(f"product {asin}: the options {axis!r} must be a list, got {choices!r:.60}")
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("value"), str):
            raise MalformedProduct(f"product {asin}: an option of {axis!r} must have a 'value', got {choice!r:.60}")
        yield choice


def _annotation(asin: str, entry: Mapping[str, Any]) -> Annotation:
    try:
        options, text = entry["instruction_options"], entry["instruction"]
        attributes = _strings(asin, "instruction_attributes", entry["instruction_attributes"], MalformedAnnotation)
    except KeyError as error:
        raise MalformedAnnotation(f"product {asin}: a human instruction must have {error}") from error
    if isinstance(options, Mapping):
        return Annotation(str(text), attributes, tuple(options.items()))
    return Annotation(str(text), attributes, _strings(asin, "instruction_options", options, MalformedAnnotation))
