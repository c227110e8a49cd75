"""Contents of the site's pages as plain values, made from the state of a session.

Templates receive only these values, so that no page can reveal hidden parts of the goal. A snapshot does not change
while the session continues in another thread.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from zlib import crc32

from mage_envs.games.webshop.pages import sub_texts
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.session import (
    BACK,
    BUY,
    DONE,
    INDEX,
    ITEM,
    PREVIOUS,
    RESULTS,
    SEARCH,
    SUB,
    SUB_PAGES,
    Session,
)

LAST_PAGE = 50
"""Last page of results on the site. The results of a search fill five pages, and the original has no last page."""
TINTS = 6
_PLAIN = re.compile(r"[A-Za-z0-9]{1,10}")
_IMAGE = re.compile(r"https?://[^\s\"'<>]+|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_NAMES = frozenset((BACK, PREVIOUS, BUY, SEARCH, *SUB_PAGES))
"""Names of buttons. A click on such a name means the button, even if an option value has the same name."""


class ShownPicture(NamedTuple):
    """The picture of a product: an address, or a drawing for its department in one of the tints."""

    department: str
    tint: int
    address: str


class Listed(NamedTuple):
    """A product in the results."""

    asin: str
    title: str
    price: str
    click: str
    picture: ShownPicture
    visited: bool


class ShownChoice(NamedTuple):
    """A value of an option."""

    value: str
    is_chosen: bool
    offered: bool
    """True if a click can choose the value. Its name may also be that of a button, or of a value of a later option."""


class ShownAxis(NamedTuple):
    """An option of a product with its values."""

    field: str
    name: str
    choices: tuple[ShownChoice, ...]


class Item(NamedTuple):
    """The current product."""

    asin: str
    title: str
    price: str
    picture: ShownPicture
    axes: tuple[ShownAxis, ...]
    choices: tuple[tuple[str, str], ...]
    tabs: tuple[str, ...]


class Shown(NamedTuple):
    """A page of a visit."""

    kind: str
    address: str
    """Path of the page. It names only the product, the page of results or the sub page."""
    instruction: str
    query: str
    number: int
    total: int
    products: tuple[Listed, ...]
    has_next: bool
    item: Item | None
    sub: str
    texts: tuple[str, ...]
    score: float | None


def address(session: Session) -> str:
    """Return the path of the session's current page."""
    if session.page == INDEX:
        return "/search"
    if session.page == RESULTS:
        return f"/results/{session.number}"
    if session.page == DONE:
        return "/done"
    assert session.product is not None
    # An asin of the original's data may contain characters that are not safe in a path.
    asin = session.product.asin
    path = f"/item/{asin if _PLAIN.fullmatch(asin) else '-'}"
    return path if session.page == ITEM else f"{path}/{session.sub}"


def build_page(session: Session, images: bool = False) -> Shown:
    """Return the session's current page. If `images` is True, it has the addresses of the data's pictures."""
    product = session.product
    on_results = session.page == RESULTS
    return Shown(
        kind=session.page,
        address=address(session),
        instruction=session.goal.instruction,
        query=session.query,
        number=session.number,
        total=len(session.results),
        products=_list_products(session, images) if on_results else (),
        has_next=on_results and session.number < LAST_PAGE,
        item=None if product is None else _item(session, product, images),
        sub=session.sub,
        texts=tuple(sub_texts(session)) if session.page == SUB else (),
        score=None if session.score is None else session.score.total,
    )


def picture(product: Product, images: bool) -> ShownPicture:
    """Return a product's picture. It has an address only if `images` is True and the address is safe."""
    # The checksum gives a product the same tint on every page.
    image_address = product.image if images and _IMAGE.fullmatch(product.image) else ""
    return ShownPicture(product.category, crc32(product.asin.encode("utf-8", "replace")) % TINTS, image_address)


def _list_products(session: Session, images: bool) -> tuple[Listed, ...]:
    hits = (session.shop.catalogue.product(position) for position in session.shown)
    return tuple(
        Listed(
            asin=hit.asin,
            title=hit.title,
            price=hit.price_tag,
            click=hit.asin.lower(),
            picture=picture(hit, images),
            visited=hit.asin in session.visited,
        )
        for hit in hits
    )


def can_choose(session: Session, axis: str, value: str) -> bool:
    """Return True if a click on `value` chooses it for `axis`.

    Args:
        session: A session on the page of a product.
    """
    assert session.product is not None
    axes = [name for name, values in session.product.options.items() if value in values]
    return bool(value) and value == value.strip().lower() and value not in _NAMES and axes[-1:] == [axis]


def _item(session: Session, product: Product, images: bool) -> Item:
    axes = []
    for index, (name, values) in enumerate(product.options.items()):
        option_choices = tuple(
            ShownChoice(value, session.options.get(name) == value, can_choose(session, name, value))
            for value in dict.fromkeys(values)
        )
        axes.append(ShownAxis(f"option-{index}", name, option_choices))
    return Item(
        asin=product.asin,
        title=product.title,
        price=product.price_tag,
        picture=picture(product, images),
        axes=tuple(axes),
        choices=tuple(session.options.items()),
        tabs=session.tabs,
    )
