"""The Flask application: routes, cookies, templates and error pages around the views."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.security import LONGEST_BODY, Guard, Tokens, host_names
from mage_envs.games.webshop.site.views import NOTICES, Asked, Facts, GoTo, Reaction, Refusal, Views
from mage_envs.games.webshop.site.visits import Visits
from mage_envs.games.webshop.site.watching import Watches

if TYPE_CHECKING:
    from flask import Flask, Response

_REFUSALS = {
    400: "The site does not understand this request.",
    404: "There is no such page.",
    405: "This page takes no such request.",
    413: "That is more than the site takes at once.",
    500: "Something went wrong on our side; the visit is as it was.",
}


def needed(module: str) -> ModuleType:
    """Import and return a module that requires the extra `webshop`. Raises ImportError that names the extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(
            f'WebShop\'s site requires {error.name}. Install it with: pip install "mage-envs[webshop]"'
        ) from error


def create_app(
    shop: Shop,
    *,
    hosts: Collection[str] = host_names(3000),
    cookie: str = "webshop",
    images: bool = False,
    shows_attributes: bool = False,
    visits: Visits | None = None,
    watches: Watches | None = None,
    rng: np.random.Generator | None = None,
) -> Flask:
    """Return the site for `shop` as a WSGI application.

    Args:
        shop: The shop.
        hosts: Accepted values of the Host header, with ports.
        cookie: Name of the visitor's cookie.
        images: If True, show the data's pictures, which browsers load from other servers.
        shows_attributes: If True, offer the page of hidden attributes.
        visits: Store of the visits (default: a new one).
        watches: Store of the agents' sessions (default: a new one).
        rng: Source of the random goals (default: a new generator).

    Raises:
        ImportError: If flask is not installed.
    """
    flask = needed("flask")
    app: Flask = flask.Flask(__name__, static_folder="static", template_folder="templates")
    # The debugger would run code from a browser, so the site ignores FLASK_DEBUG.
    app.debug = False
    app.config.update(MAX_CONTENT_LENGTH=LONGEST_BODY, MAX_FORM_MEMORY_SIZE=LONGEST_BODY, PROPAGATE_EXCEPTIONS=False)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    tokens = Tokens()
    views = Views(
        shop=shop,
        tokens=tokens,
        visits=Visits() if visits is None else visits,
        watches=Watches() if watches is None else watches,
        rng=np.random.default_rng() if rng is None else rng,
        images=images,
        shows_attributes=shows_attributes,
    )
    for address, method, view in views.routes():
        app.add_url_rule(address, f"{method} {address}", _endpoint(flask, tokens, cookie, view), methods=[method])
    _add_refusals(flask, app)
    # The guard is the outermost layer, so that a rejected request reaches neither Flask nor a view.
    app.wsgi_app = Guard(app.wsgi_app, hosts, images)  # type: ignore[method-assign]
    return app


def _endpoint(flask: ModuleType, tokens: Tokens, cookie: str, view: Callable[..., Reaction]) -> Callable[..., Response]:
    """Return a view in the form that Flask calls."""

    def endpoint(**parts: str) -> Response:
        request = flask.request
        token = tokens.read(request.cookies.get(cookie, ""))
        asked = Asked(token, request.form, request.path, request.args.get("notice", ""))
        return _respond(flask, tokens, cookie, view(asked, **parts))

    return endpoint


def _respond(flask: ModuleType, tokens: Tokens, cookie: str, answer: Reaction) -> Response:
    response: Response
    if isinstance(answer, Facts):
        return flask.jsonify(answer.values)  # type: ignore[no-any-return]
    if isinstance(answer, GoTo):
        # The address contains the name of a notice, never its text, so that a link cannot put text on a page.
        notice = answer.notice if answer.notice in NOTICES else ""
        response = flask.redirect(f"{answer.path}?notice={notice}" if notice else answer.path, 303)
    else:
        notice = NOTICES.get(flask.request.args.get("notice", ""), "")
        response = flask.make_response(flask.render_template(answer.template, notice=notice, **answer.values))
    if answer.token is not None:
        response.set_cookie(cookie, tokens.cookie(answer.token), httponly=True, samesite="Strict", path="/")
    return response


def _add_refusals(flask: ModuleType, app: Flask) -> None:
    """Register error handlers. Every error is a page of the site that repeats nothing of the request."""

    from werkzeug.exceptions import HTTPException

    def page(status: int, text: str) -> tuple[str, int]:
        return flask.render_template("refused.html", status=status, text=text), status

    def refused(error: Refusal) -> tuple[str, int]:
        return page(error.status, error.text)

    def failed(error: HTTPException) -> tuple[str, int]:
        code = error.code or 500
        if code not in _REFUSALS:
            code = 400 if code < 500 else 500
        return page(code, _REFUSALS[code])

    app.register_error_handler(Refusal, refused)
    app.register_error_handler(HTTPException, failed)
