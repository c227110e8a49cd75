"""The pages of the shop as lists of texts, and the original's observation modes.

A page is the sequence of text nodes in the original's HTML. Therefore `text` and `text_rich` equal the original's
observations byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mage_envs.games.webshop.html import html_page
from mage_envs.games.webshop.session import BUY, DONE, INDEX, ITEM, RESULTS, SUB, THANKS, Session
from mage_envs.games.webshop.words import SEPARATOR

BASE_URL = "http://127.0.0.1:3000"
TEXT, BUTTON, OPTION, LINK = "text", "button", "option", "link"
_BLANKS = " \n\t\f\r"
"""White space of the original's HTML parser."""
# A plain tuple, because a page has dozens of them, and named tuples take several times as long to make.
Piece = tuple[str, str]
"""One text node of a page: the kind of element that contains it, and its text."""


def nodes(session: Session, shows_score: bool) -> list[Piece]:
    """Return the text nodes of the visitor's current page; `shows_score` adds the score to the last page."""
    pieces = _NODES[session.page](session) if session.page != DONE else _done(session, shows_score)
    # Few texts start with a blank, and a call for each of the others would take longer than the rest.
    if not any(text[:1] in _BLANKS for _, text in pieces):
        return pieces
    return [node for node in map(_collapse_blanks, pieces) if node is not None]


def _collapse_blanks(node: Piece) -> Piece | None:
    """Return the node after the original's HTML parser, or None if the parser drops it.

    A node of blanks alone is dropped if it is empty or has a line break, else it becomes one blank.
    """
    kind, text = node
    if text.strip(_BLANKS):
        return node
    return None if not text or "\n" in text else (kind, " ")


def _index(session: Session) -> list[Piece]:
    return [
        (TEXT, "WebShop"),
        (TEXT, "Instruction: "),
        (TEXT, session.goal.instruction),
        (BUTTON, "Search"),
    ]


def _header(session: Session) -> list[Piece]:
    return [
        (TEXT, "Instruction:"),
        (TEXT, session.goal.instruction),
        (BUTTON, "Back to Search"),
    ]


def _results(session: Session) -> list[Piece]:
    pieces = _header(session)
    pieces.append((TEXT, f"Page {session.number} (Total results: {len(session.results)})"))
    if session.number > 1:
        pieces.append((BUTTON, "< Prev"))
    pieces.append((BUTTON, "Next >"))
    for position in session.shown:
        product = session.shop.catalogue.product(position)
        pieces += ((LINK, product.asin), (TEXT, product.title), (TEXT, product.price_tag))
    return pieces


def _item(session: Session) -> list[Piece]:
    product = session.product
    assert product is not None
    pieces = _header(session)
    pieces.append((BUTTON, "< Prev"))
    for axis, values in product.options.items():
        pieces.append((TEXT, axis))
        pieces += [(OPTION, value) for value in values]
    pieces += [
        (TEXT, product.title),
        (TEXT, f"Price: {product.price_tag}"),
        (TEXT, "Rating: N.A."),
    ]
    return pieces + [(BUTTON, name.title()) for name in (*session.tabs, BUY)]


def _sub(session: Session) -> list[Piece]:
    return [*_header(session), (BUTTON, "< Prev"), *((TEXT, text) for text in _body(session))]


def _body(session: Session) -> list[str]:
    """Return the texts of a sub page below its header."""
    product = session.product
    assert product is not None
    if session.sub == "description":
        return [product.description]
    if session.sub == "features":
        return [f" {bullet}" for bullet in product.bullets]
    if session.sub == "attributes":
        attribute_lines = [f" {attribute}" for attribute in product.attributes]
        return [*attribute_lines, product.category, product.query, product.product_category]
    return []


def sub_texts(session: Session) -> list[str]:
    """Return the texts of a sub page that are not blank, without surrounding blanks."""
    return [text.strip() for text in _body(session) if text.strip()]


def _done(session: Session, shows_score: bool) -> list[Piece]:
    """Return the last page. With the score it has the captions of the original's hidden fields, too."""
    assert session.product is not None
    assert session.score is not None
    texts = [THANKS]
    if shows_score:
        # The original's template uses Jinja's `tojson`, which sorts keys and escapes these characters.
        options_json = json.dumps(session.options, sort_keys=True)
        for character in "<>&'":
            options_json = options_json.replace(character, f"\\u{ord(character):04x}")
        texts += (
            "Your code: ",
            "None",
            " (Paste it in your MTurk interface.)",
            "Purchased",
            "asin",
            session.product.asin,
            "options",
            options_json,
            "attrs",
            "None",
            "category",
            "None",
            "query",
            "None",
            "product category",
            "None",
            "Target",
            "asin",
            "options",
            "attrs",
            "price upper",
            "instuction text",
            "category",
            "product category",
            "query",
            "Goal ",
            "None",
            "Reward",
            "Your score (min 0.0, max 1.0)",
            str(session.score.total),
            "Reward Details ",
            "None",
        )
    if feedback := session.feedback():
        texts.append(feedback)
    return [(TEXT, text) for text in texts]


_NODES: Mapping[str, Callable[[Session], list[Piece]]] = {INDEX: _index, RESULTS: _results, ITEM: _item, SUB: _sub}


# -- the modes -------------------------------------------------------------------------------------------------


def text(session: Session, shows_score: bool) -> str:
    """Return all texts, stripped and joined by ` [SEP] `."""
    return SEPARATOR.join([text.strip() for _, text in nodes(session, shows_score)])


def text_rich(session: Session, shows_score: bool) -> str:
    """Return one line per text, with marked buttons and options.

    Visited products and chosen options are marked as clicked.
    """
    # As in the original, an option counts as chosen if its quoted value is anywhere in the URL.
    address = url(session, shows_score)
    lines, clicked_lines = [], []
    for kind, text in nodes(session, shows_score):
        if kind == BUTTON:
            lines.append(f"[button] {text} [button_]")
        elif kind == OPTION:
            clicked = f'"{text}"' in address
            lines.append(f"  {_format_button(text, clicked)}")
            if clicked:
                clicked_lines.append(f"You have clicked {text}.")
        elif kind == LINK:
            lines.append(f"\n{_format_button(text, text in session.visited)}")
        else:
            lines.append(text)
    # The original inserts each chosen option at the front, which reverses their order.
    return "".join(f"{line}\n" for line in (*reversed(clicked_lines), *lines))


def _format_button(text: str, clicked: bool) -> str:
    return f"[clicked button] {text} [clicked button_]" if clicked else f"[button] {text} [button_]"


def url(session: Session, shows_score: bool) -> str:
    """Return the page's address on the original's site, for a session with the name `session`."""
    # The original formats the options as JSON on item pages, and as a Python dict on sub pages and the last page.
    asin = session.product.asin if session.product is not None else ""
    query = "+".join(session.query.split(" "))
    if session.page == INDEX:
        return f"{BASE_URL}/session"
    if session.page == RESULTS:
        return f"{BASE_URL}/search_results/session/{query}/{session.number}"
    if session.page == ITEM:
        return f"{BASE_URL}/item_page/session/{asin}/{query}/{session.number}/{json.dumps(session.options)}"
    if session.page == SUB:
        item_path = f"{asin}/{query}/{session.number}/{session.sub.capitalize()}"
        return f"{BASE_URL}/item_sub_page/session/{item_path}/{session.options}"
    return f"{BASE_URL}/done/session/{asin}/{session.options}"


def as_dict(session: Session, shows_score: bool) -> str:
    """Return the page as a JSON object with the content of the text modes."""
    page: dict[str, Any] = {"page": session.page}
    if session.page != DONE:
        page["instruction"] = session.goal.instruction
    if session.page in (RESULTS, ITEM, SUB):
        page |= {"query": session.query, "number": session.number}
    product = session.product
    if session.page == RESULTS:
        products = [session.shop.catalogue.product(position) for position in session.shown]
        page["total"] = len(session.results)
        page["products"] = [
            {"asin": hit.asin, "title": hit.title, "price": hit.price_tag, "visited": hit.asin in session.visited}
            for hit in products
        ]
    elif product is not None:
        page["asin"] = product.asin
        page["chosen"] = session.options
    if product is not None and session.page == ITEM:
        page |= {"title": product.title, "price": product.price_tag, "options": product.options}
    if product is not None and session.page == SUB:
        page |= {"sub": session.sub, "texts": sub_texts(session)}
    if session.page == DONE:
        page["message"] = THANKS
        if shows_score and session.score is not None:
            page["score"] = session.score.total
        if feedback := session.feedback():
            page["feedback"] = feedback
    return json.dumps(page, ensure_ascii=False)


MODES: Mapping[str, Callable[[Session, bool], str]] = {
    "text": text,
    "text_rich": text_rich,
    "html": html_page,
    "url": url,
    "dict": as_dict,
}
"""Observation modes by name: functions of the session and a flag that shows the score on the last page."""
