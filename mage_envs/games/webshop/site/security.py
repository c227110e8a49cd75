"""What stands before the pages: signed tokens, and a guard that every request passes and every answer leaves by."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, NamedTuple

LONGEST_BODY = 16_384
"""Bytes of a request's body."""
LONGEST_ADDRESS = 2048
"""Characters of a request's address."""
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""On every answer, beside the content policy."""
_FORM = "application/x-www-form-urlencoded"
_ODD_PATH = re.compile(r"%2f|%5c|%00|%2e%2e|\\|\.\.|//|[\x00-\x20\x7f]", re.IGNORECASE)
_TOKEN = re.compile(r"[0-9a-f]{32}")

Environ = dict[str, Any]
WSGI = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def headers(images: bool) -> dict[str, str]:
    """On every answer: no script at all, nothing from elsewhere but pictures where those are wanted."""
    pictures = "'self' https: http: data:" if images else "'self'"
    policy = f"default-src 'none'; style-src 'self'; img-src {pictures}; form-action 'self'; base-uri 'none'; "
    return {**HEADERS, "Content-Security-Policy": f"{policy}frame-ancestors 'none'"}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(port: int, names: Collection[str] = ()) -> frozenset[str]:
    """What the Host header may say: this machine by its loopback names, and `names`, all with the port."""
    known = {"127.0.0.1", "localhost", "[::1]", *(f"[{name}]" if ":" in name else name.lower() for name in names)}
    return frozenset({f"{name}:{port}" for name in known} | (known if port == 80 else set()))


class Tokens:
    """Visitors' tokens of 128 bits, signed for the cookie, with a key per token for the forms."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def new(self) -> str:
        """A token that nobody can guess."""
        return secrets.token_hex(16)

    def _sign(self, purpose: str, token: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{token}".encode(), sha256).hexdigest()

    def cookie(self, token: str) -> str:
        """The signed form."""
        return f"{token}.{self._sign('cookie', token)}"

    def read(self, cookie: str) -> str | None:
        """The token of a cookie that this process signed, else None."""
        token, _, signature = cookie.partition(".")
        if not _TOKEN.fullmatch(token) or not self._same(signature, self._sign("cookie", token)):
            return None
        return token

    def form_key(self, token: str) -> str:
        """What the visitor's forms carry, so that no other site can send them."""
        return self._sign("form", token)

    def owns_form(self, token: str, key: str) -> bool:
        """Whether a form with that key was made for that visitor."""
        return self._same(key, self.form_key(token))

    @staticmethod
    def _same(one: str, other: str) -> bool:
        return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


class _Problem(NamedTuple):
    """Why a request goes no further."""

    status: str
    text: str


class Guard:
    """A WSGI application in front of another: refuses what no page of the site sends, and adds the headers."""

    def __init__(self, inner: WSGI, hosts: Collection[str], images: bool) -> None:
        self._inner = inner
        self._hosts = frozenset(hosts)
        self._headers = headers(images)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            given = {name.lower() for name, _ in headers}
            own = {name.lower() for name in self._headers}
            kept = [(name, value) for name, value in headers if name.lower() not in own]
            if "cache-control" not in given:
                kept.append(("Cache-Control", "no-store"))
            return start_response(status, [*kept, *self._headers.items()], exc_info)

        problem = self._problem(environ)
        if problem is None:
            return self._inner(environ, start)
        body = f"{problem.text}\n".encode()
        start(problem.status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _problem(self, environ: Environ) -> _Problem | None:
        if str(environ.get("HTTP_HOST", "")).lower() not in self._hosts:
            return _Problem("421 Misdirected Request", "This host name is not served here.")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD", "POST"):
            return _Problem("405 Method Not Allowed", "Only GET, HEAD and POST are served here.")
        address = str(environ.get("REQUEST_URI", environ.get("PATH_INFO", "")))
        if len(address) > LONGEST_ADDRESS:
            return _Problem("414 URI Too Long", f"An address has at most {LONGEST_ADDRESS} characters.")
        path = address.partition("?")[0]
        if not path.startswith("/") or _ODD_PATH.search(path):
            return _Problem("400 Bad Request", "The site has no such addresses.")
        return self._body_problem(environ)

    def _body_problem(self, environ: Environ) -> _Problem | None:
        length, posts = str(environ.get("CONTENT_LENGTH") or ""), environ["REQUEST_METHOD"] == "POST"
        if "HTTP_TRANSFER_ENCODING" in environ or (posts and not length):
            return _Problem("411 Length Required", "A request must state the length of its body.")
        if length and not (length.isascii() and length.isdigit()):
            return _Problem("400 Bad Request", "The length of the body is no number.")
        if length and (len(length) > 9 or int(length) > LONGEST_BODY):
            return _Problem("413 Content Too Large", f"A request has at most {LONGEST_BODY} bytes.")
        if posts and str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower() != _FORM:
            return _Problem("415 Unsupported Media Type", f"Forms are sent as {_FORM}.")
        if posts and not _from_here(environ):
            return _Problem("403 Forbidden", "Forms are taken from the site's own pages only.")
        return None


def _from_here(environ: Environ) -> bool:
    """Whether what a browser says of a form's origin is this site; other programs say nothing."""
    own = f"http://{environ['HTTP_HOST']}".lower()
    origin = str(environ.get("HTTP_ORIGIN", own)).lower()
    return origin == own and str(environ.get("HTTP_SEC_FETCH_SITE", "same-origin")) == "same-origin"
