"""A Flask application around views: each view receives the parts of a request and returns a page or a redirect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from mage_envs.loading.extras import requires
from mage_envs.web.security import LONGEST_BODY, Guard, Tokens

if TYPE_CHECKING:
    from flask import Flask, Response

_REFUSALS = {
    400: "The site does not understand this request.",
    404: "There is no such page.",
    405: "This page takes no such request.",
    413: "That is more than the site takes at once.",
    500: "Something went wrong on our side; the visit is as it was.",
}


class Asked(NamedTuple):
    """The parts of a request that views read."""

    token: str | None
    """Visitor's token from the signed cookie."""
    form: Mapping[str, str]
    path: str
    notice: str
    address: str = ""
    """Address of the visitor's machine, or of a proxy."""


class Page(NamedTuple):
    """A template with its values. `token` is the visitor's new token, or None if it does not change."""

    template: str
    values: dict[str, Any]
    token: str | None = None


class GoTo(NamedTuple):
    """A redirect to another page of the site."""

    path: str
    notice: str = ""
    token: str | None = None


class Facts(NamedTuple):
    """A response for programs, sent as JSON."""

    values: dict[str, Any]


class Refusal(Exception):
    """A rejected request with its HTTP status and the text of the page."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


Reaction = Page | GoTo | Facts
Route = tuple[str, str, Callable[..., Reaction]]
"""Address, method and view of a page."""


def form_page(tokens: Tokens, request: Asked, template: str, values: dict[str, Any]) -> Page:
    """Return a page with forms. A visitor without a token receives one, and the server stores nothing for it."""
    token = request.token or tokens.new()
    return Page(template, {"form_key": tokens.form_key(token), **values}, None if request.token else token)


def check_form(tokens: Tokens, request: Asked) -> str:
    """Return the visitor's token. Raises Refusal if the form was not made for this visitor."""
    if request.token is None or not tokens.owns_form(request.token, request.form.get("form_key", "")):
        raise Refusal(403, "This form was not made for you, or the site was started again. Open the page anew.")
    return request.token


def make_app(
    package: str,
    routes: Sequence[Route],
    tokens: Tokens,
    *,
    hosts: Collection[str],
    cookie: str,
    notices: Mapping[str, str],
    extra: str,
    images: bool = False,
) -> Flask:
    """Return a WSGI application that serves views, with the templates and static files of a package.

    Args:
        package: Name of the package with the folders `templates` (among them `refused.html`) and `static`.
        hosts: Accepted values of the Host header, with ports.
        cookie: Name of the visitor's cookie.
        notices: Notices at the top of a page, by the name in the address.
        extra: Extra of this project that installs flask.
        images: If True, pages may show pictures of other servers.

    Raises:
        ImportError: If flask is not installed.
    """
    with requires("The site", extra):
        import flask
    app: Flask = flask.Flask(package, static_folder="static", template_folder="templates")
    # The debugger would run code from a browser, so the site ignores FLASK_DEBUG.
    app.debug = False
    app.config.update(MAX_CONTENT_LENGTH=LONGEST_BODY, MAX_FORM_MEMORY_SIZE=LONGEST_BODY, PROPAGATE_EXCEPTIONS=False)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True

    def endpoint_of(view: Callable[..., Reaction]) -> Callable[..., Response]:
        """Return a view in the form that Flask calls."""

        def endpoint(**parts: str) -> Response:
            flask_request = flask.request
            token = tokens.read(flask_request.cookies.get(cookie, ""))
            request = Asked(
                token=token,
                form=flask_request.form,
                path=flask_request.path,
                notice=flask_request.args.get("notice", ""),
                address=flask_request.remote_addr or "",
            )
            response, new = _respond(flask, notices, view(request, **parts))
            if new is not None:
                response.set_cookie(cookie, tokens.cookie(new), httponly=True, samesite="Strict", path="/")
            return response

        return endpoint

    for address, method, view in routes:
        app.add_url_rule(address, f"{method} {address}", endpoint_of(view), methods=[method])
    _add_refusals(flask, app)
    # The guard is the outermost layer, so that a rejected request reaches neither Flask nor a view.
    app.wsgi_app = Guard(app.wsgi_app, hosts, images)  # type: ignore[method-assign]
    return app


def _respond(flask: ModuleType, notices: Mapping[str, str], answer: Reaction) -> tuple[Response, str | None]:
    """Return the response to a view's answer, and the visitor's new token."""
    if isinstance(answer, Facts):
        return flask.jsonify(answer.values), None
    if isinstance(answer, GoTo):
        # The address contains the name of a notice, never its text, so that a link cannot put text on a page.
        notice = answer.notice if answer.notice in notices else ""
        return flask.redirect(f"{answer.path}?notice={notice}" if notice else answer.path, 303), answer.token
    notice = notices.get(flask.request.args.get("notice", ""), "")
    return flask.make_response(flask.render_template(answer.template, notice=notice, **answer.values)), answer.token


def _add_refusals(flask: ModuleType, app: Flask) -> None:
    """Register error handlers. Every error is a page of the site that repeats nothing of the request."""

    from werkzeug.exceptions import HTTPException

    def page(status: int, text: str) -> tuple[str, int]:
        return flask.render_template("refused.html", status=status, text=text), status

    def show_refusal(error: Refusal) -> tuple[str, int]:
        return page(error.status, error.text)

    def show_failure(error: HTTPException) -> tuple[str, int]:
        code = error.code or 500
        if code not in _REFUSALS:
            code = 400 if code < 500 else 500
        return page(code, _REFUSALS[code])

    app.register_error_handler(Refusal, show_refusal)
    app.register_error_handler(HTTPException, show_failure)
