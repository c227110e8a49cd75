"""What a page in mode `text` says, and its words for the prompt style `words`. No table of the shop loads here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from mage_envs.text.words.spelling import text_words

SEPARATOR = " [SEP] "
BUTTONS = ("back to search", "< prev", "next >", "description", "features", "reviews", "attributes", "buy now")
"""Names of clicks that open no product and choose no option."""
_CLAUSE = re.compile(r",? and price lower than ([\d.]+) dollars$")
_PRICE = re.compile(r"\$([\d.]+)")
_PAGE_NUMBER = re.compile(r"Page (\d+) \(")
_UNMET = {"kind of product": "kind", "properties (": "properties", "options (": "options", "price": "price"}
"""Parts of the feedback on a purchase, to their words."""
PRODUCTS, OPTIONS, PAGES, MOST_SHARED, LAST_WORDS = 50, 60, 9, 9, 3
"""Largest number of a product, of an option and of a page of results, and of words that a title shares, in the
vocabulary; and the words of the short search."""
SEARCH, SHORT_SEARCH = "search", "search-end"


class ListedProduct(NamedTuple):
    """A product on a page of results."""

    name: str
    """Name of its click, in lower case."""
    title: str
    price: float | None
    """Lowest price in dollars, or None if the page has none."""


def instruction_in(observation: str) -> str:
    """Return the instruction on a page of mode `text`, `text_rich` or `dict`; raise ValueError for any other text."""
    # Mode `text` separates its parts by [SEP], mode `text_rich` by lines; mode `dict` is JSON.
    for separator in (SEPARATOR, "\n"):
        for caption, text in pairwise(observation.split(separator)):
            if caption.strip() == "Instruction:":
                return text.strip()
    if observation.startswith("{"):
        return str(json.loads(observation)["instruction"])
    raise ValueError(
        f"WebShop's agents require an instruction in the observation, got {observation[:60]!r}. "
        "Use the mode text, text_rich or dict."
    )


def without_price(instruction: str) -> str:
    """Return an instruction without its price limit."""
    return _CLAUSE.sub("", instruction)


def price_limit(instruction: str) -> float:
    """Return the price limit of an instruction in dollars, or infinity."""
    clause = _CLAUSE.search(instruction)
    return float(clause[1]) if clause else float("inf")


def products_in(observation: str, legal_actions: Sequence[str]) -> Iterator[ListedProduct]:
    """Yield the products on a page of results, in the order of the page."""
    parts = observation.split(SEPARATOR)
    lower_parts = [part.lower() for part in parts]
    for name in _names(legal_actions):
        if name in lower_parts:
            # On the page a product's id is followed by its title and its price.
            title, price = (*parts[lower_parts.index(name) + 1 :][:2], "", "")[:2]
            number = _PRICE.match(price)
            yield ListedProduct(name, title, float(number[1]) if number else None)


def is_named(value: str, instruction: str) -> bool:
    """Return True if an instruction in lower case contains the value of an option as whole words."""
    # Most values are not in the instruction at all, which is cheaper to see than whole words.
    return value in instruction and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", instruction) is not None


def _names(legal_actions: Sequence[str]) -> Iterator[str]:
    """Yield the names of the clicks that open a product or choose an option."""
    for action in legal_actions:
        if action.startswith("click[") and action[6:-1] not in BUTTONS:
            yield action[6:-1]


# -- words --------------------------------------------------------------------------------------------------


def spell_actions(observation: str, legal_actions: Sequence[str]) -> Mapping[str, str]:
    """Return the words of the actions on a page: clicks by their position, and two searches.

    The searches are for the instruction without its price, and for the last words of it.
    """
    query = without_price(instruction_in(observation))
    actions = {f"search[{query}]": SEARCH, f"search[{' '.join(query.split()[-LAST_WORDS:])}]": SHORT_SEARCH}
    # A short instruction gives one search twice, and the first of its words is meant.
    actions[f"search[{query}]"] = SEARCH
    parts, first = [part.lower() for part in observation.split(SEPARATOR)], _first_number(observation)
    names = list(_names(legal_actions))
    is_results = "click[next >]" in legal_actions
    for action in legal_actions:
        name = action[6:-1]
        if not action.startswith("click["):
            continue
        if name in BUTTONS:
            actions[action] = _button_word(name)
        elif is_results:
            actions[action] = f"product-{first + names.index(name)}"
        elif name in parts:
            # Behind two buttons and the instruction with its caption.
            actions[action] = f"option-{parts.index(name, 4) - 3}" if name in parts[4:] else "option-1"
    return {action: word for action, word in actions.items() if word in _VOCABULARY}


def read_page(observation: str, seat: int) -> tuple[str, ...]:
    """Return the words of a page.

    Of a product on a page of results they are its number, the number of words of the instruction in its title, and
    `dear` if its lowest price is above the limit. Of the options they are those that the instruction names.
    """
    parts = observation.split(SEPARATOR)
    if parts[0] == "WebShop":
        return ("shop",)
    if parts[0] != "Instruction:":
        return "bought", *(word for text, word in _UNMET.items() if text in observation)
    instruction = parts[1].strip()
    if _PAGE_NUMBER.match(parts[3]):
        return tuple(_words_of_results(observation, instruction))
    if parts[-1] != "Buy Now":
        return ("text",)
    wanted = without_price(instruction).lower()
    named = (number for number, part in enumerate(parts[4:], start=1) if is_named(part.lower(), wanted))
    return "product", *(f"option-{number}" for number in named if number <= OPTIONS)


def _words_of_results(observation: str, instruction: str) -> Iterator[str]:
    first, limit = _first_number(observation), price_limit(instruction)
    wanted = set(text_words(without_price(instruction), 0))
    yield f"page-{min(first // 10 + 1, PAGES)}"
    parts = observation.split(SEPARATOR)
    clicks = [f"click[{part.lower()}]" for part in parts[parts.index("Next >") + 1 :: 3]]
    for number, product in enumerate(products_in(observation, clicks), start=first):
        yield f"product-{min(number, PRODUCTS)}"
        yield f"shared-{min(len(wanted & set(text_words(product.title, 0))), MOST_SHARED)}"
        if product.price is None or product.price > limit:
            yield "dear"


def _first_number(observation: str) -> int:
    """Return the number of the first product on a page of results, from 1 on the first one."""
    page = _PAGE_NUMBER.search(observation)
    return 1 if page is None else 10 * int(page[1]) - 9


def _button_word(name: str) -> str:
    return name.strip("<> ").replace(" ", "-")


VOCABULARY = (
    *("shop", "bought", "product", "text", "dear", *_UNMET.values(), SEARCH, SHORT_SEARCH, *map(_button_word, BUTTONS)),
    *(f"page-{number}" for number in range(1, PAGES + 1)),
    *(f"product-{number}" for number in range(1, PRODUCTS + 1)),
    *(f"shared-{number}" for number in range(MOST_SHARED + 1)),
    *(f"option-{number}" for number in range(1, OPTIONS + 1)),
)
"""All words of the pages and of the actions."""
_VOCABULARY = frozenset(VOCABULARY)
