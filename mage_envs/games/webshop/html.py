"""The pages in HTML, with the texts, ids and classes that tools expect from the original.

Tools find `#search_input`, `#instruction-text`, `.btn`, `.product-link`, `.product-title`, `.product-price`,
`input[type=radio]` and, if the score is shown, `#reward pre`. The markup hides nothing that the page does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from mage_envs.games.webshop.session import BUY, DONE, INDEX, ITEM, RESULTS, SUB, THANKS, Session


def html_page(session: Session, shows_score: bool) -> str:
    """Return the visitor's current page; `shows_score` adds the score to the last page."""
    body = _done(session, shows_score) if session.page == DONE else _BODIES[session.page](session)
    lines = ("<!DOCTYPE html>", '<html lang="en">', '<head><meta charset="utf-8"><title>WebShop</title></head>')
    return "\n".join((*lines, "<body>", *body, "</body>", "</html>"))


def _button(name: str) -> str:
    return f'<form method="post"><button type="submit" class="btn">{escape(name)}</button></form>'


def _tag(tag: str, classes: str, text: str) -> str:
    return f'<{tag} class="{classes}">{escape(text)}</{tag}>'


def _header(session: Session, *, goes_back: bool) -> list[str]:
    instruction = f'<div id="instruction-text"><h4>Instruction:<br>{escape(session.goal.instruction)}</h4></div>'
    return [instruction, _button("Back to Search"), *([_button("< Prev")] if goes_back else [])]


def _index(session: Session) -> list[str]:
    return [
        "<h2>WebShop</h2>",
        f'<div id="instruction-text"><h4>Instruction: <br>{escape(session.goal.instruction)}</h4></div>',
        '<form method="post">',
        '<input id="search_input" type="text" name="search_query" required>',
        '<button type="submit" class="btn">Search</button>',
        "</form>",
    ]


def _results(session: Session) -> list[str]:
    lines = _header(session, goes_back=False)
    lines.append(f"<h3>Page {session.number} (Total results: {len(session.results)})</h3>")
    if session.number > 1:
        lines.append(_button("< Prev"))
    lines.append(_button("Next >"))
    for position in session.shown:
        product = session.shop.catalogue.product(position)
        asin = escape(product.asin)
        lines += [
            '<div class="searched-product">',
            f'<h4 class="product-asin"><a class="product-link" href="#{asin}">{asin}</a></h4>',
            _tag("h4", "product-title", product.title),
            _tag("h5", "product-price", product.price_tag),
            "</div>",
        ]
    return lines


def _item(session: Session) -> list[str]:
    product = session.product
    assert product is not None
    lines = _header(session, goes_back=True)
    for number, (axis, values) in enumerate(product.options.items()):
        lines.append(f"<h4>{escape(axis)}</h4>")
        for index, value in enumerate(values):
            radio_id = f"radio_{number}_{index}"
            checked = " checked" if session.options.get(axis) == value else ""
            lines += [
                f'<input type="radio" id="{radio_id}" name="{escape(axis)}" value="{escape(value)}"{checked}>',
                f'<label for="{radio_id}">{escape(value)}</label>',
            ]
    lines += [
        _tag("h2", "product-title", product.title),
        _tag("h4", "product-price", f"Price: {product.price_tag}"),
        "<h4>Rating: N.A.</h4>",
    ]
    return lines + [_button(name.title()) for name in (*session.tabs, BUY)]


def _sub(session: Session) -> list[str]:
    product = session.product
    assert product is not None
    # Reviews are empty, because the original loads none.
    body: Mapping[str, list[str]] = {
        "description": [_tag("p", "product-info", product.description)],
        "features": [_tag("li", "product-info", f" {bullet}") for bullet in product.bullets],
        "reviews": [],
        "attributes": [
            *(_tag("li", "attribute", f" {attribute}") for attribute in product.attributes),
            _tag("h5", "product-category", product.category),
            _tag("h5", "product-query", product.query),
            _tag("h5", "product-product_category", product.product_category),
        ],
    }
    return [*_header(session, goes_back=True), *body[session.sub]]


def _done(session: Session, shows_score: bool) -> list[str]:
    lines = [f"<h1>{THANKS}</h1>"]
    if shows_score and session.score is not None:
        lines.append(f'<h3 id="reward">Your score (min 0.0, max 1.0)<pre>{session.score.total}</pre></h3>')
    if feedback := session.feedback():
        lines.append(_tag("p", "feedback", feedback))
    return lines


_BODIES: Mapping[str, Callable[[Session], list[str]]] = {INDEX: _index, RESULTS: _results, ITEM: _item, SUB: _sub}
