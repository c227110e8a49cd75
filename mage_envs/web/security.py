"""Security of sites: signed tokens, and guards against requests that a foreign page makes through a browser."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class OriginGuard:
    """An ASGI layer that checks the headers Host and Origin of every request and WebSocket.

    Args:
        hosts: Accepted values of the Host header, with ports.
    """

    def __init__(self, inner: ASGI, hosts: Collection[str]) -> None:
        self._inner = inner
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._is_from_here(scope["headers"]):
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": b"This host or origin is not served here.\n"})
        else:
            # The server answers a close before the handshake with status 403.
            await send({"type": "websocket.close", "code": 1008})

    def _is_from_here(self, headers: Collection[tuple[bytes, bytes]]) -> bool:
        """Return True if the host is served, and the origin is the same or absent, as of programs."""
        hosts = [value.decode("latin-1").lower() for name, value in headers if name.lower() == b"host"]
        origins = [value.decode("latin-1").lower() for name, value in headers if name.lower() == b"origin"]
        # A foreign name that resolves to this machine (DNS rebinding) is a host that is not served.
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return False
        return all(origin == f"http://{hosts[0]}" for origin in origins)


LONGEST_BODY = 16_384
"""Maximum size of a request's body in bytes."""
LONGEST_ADDRESS = 2048
"""Maximum length of a request's address in characters."""
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every response, in addition to the content policy."""
_FORM = "application/x-www-form-urlencoded"
# No page has such a path. Encoded slashes, dots and control characters serve only to confuse parsers.
_ODD_PATH = re.compile(r"%2f|%5c|%00|%2e%2e|\\|\.\.|//|[\x00-\x20\x7f]", re.IGNORECASE)
_TOKEN = re.compile(r"[0-9a-f]{32}")

Environ = dict[str, Any]
WSGI = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def headers(images: bool) -> dict[str, str]:
    """Return the headers of every response: no scripts, and no foreign content except pictures if `images` is True."""
    pictures = "'self' https: http: data:" if images else "'self'"
    policy = f"default-src 'none'; style-src 'self'; img-src {pictures}; form-action 'self'; base-uri 'none'; "
    return {**HEADERS, "Content-Security-Policy": f"{policy}frame-ancestors 'none'"}


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address to listen on."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(port: int, names: Collection[str] = ()) -> frozenset[str]:
    """Return the accepted values of the Host header: loopback names and `names`, all with the port."""
    hosts = {"127.0.0.1", "localhost", "[::1]", *(f"[{name}]" if ":" in name else name.lower() for name in names)}
    # Browsers omit the default port of HTTP.
    return frozenset({f"{name}:{port}" for name in hosts} | (hosts if port == 80 else set()))


class Tokens:
    """Visitors' tokens of 128 bits, with a signature for the cookie and a key for the forms."""

    def __init__(self) -> None:
        # A new secret per process, because visits do not survive a restart either.
        self._secret = secrets.token_bytes(32)

    def new(self) -> str:
        """Return a random token, which cannot be guessed."""
        return secrets.token_hex(16)

    def _sign(self, purpose: str, token: str) -> str:
        # The purpose keeps a cookie's signature from serving as a form's key.
        return hmac.new(self._secret, f"{purpose}:{token}".encode(), sha256).hexdigest()

    def cookie(self, token: str) -> str:
        """Return the signed token for the cookie."""
        return f"{token}.{self._sign('cookie', token)}"

    def read(self, cookie: str) -> str | None:
        """Return the token of a cookie, or None if this process did not sign it."""
        token, _, signature = cookie.partition(".")
        if not _TOKEN.fullmatch(token) or not self._same(signature, self._sign("cookie", token)):
            return None
        return token

    def form_key(self, token: str) -> str:
        """Return the key of the visitor's forms, without which other sites cannot submit them."""
        return self._sign("form", token)

    def owns_form(self, token: str, key: str) -> bool:
        """Return True if a form with that key was made for that visitor."""
        return self._same(key, self.form_key(token))

    @staticmethod
    def _same(value: str, expected: str) -> bool:
        # The time of this comparison does not depend on the position of the first difference.
        return hmac.compare_digest(value.encode("utf-8", "replace"), expected.encode())


class _Problem(NamedTuple):
    """The status and text of a rejected request."""

    status: str
    text: str


class Guard:
    """A WSGI layer that rejects requests that no page of the site sends, and adds headers to every response.

    Args:
        hosts: Accepted values of the Host header, with ports.
        images: If True, browsers may load pictures from other servers.
    """

    def __init__(self, inner: WSGI, hosts: Collection[str], images: bool) -> None:
        self._inner = inner
        self._hosts = frozenset(hosts)
        self._headers = headers(images)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            # The guard's headers replace those of the application; its default for caching does not.
            given_names = {name.lower() for name, _ in headers}
            guard_names = {name.lower() for name in self._headers}
            kept_headers = [(name, value) for name, value in headers if name.lower() not in guard_names]
            if "cache-control" not in given_names:
                kept_headers.append(("Cache-Control", "no-store"))
            return start_response(status, [*kept_headers, *self._headers.items()], exc_info)

        problem = self._problem(environ)
        if problem is None:
            return self._inner(environ, start)
        body = f"{problem.text}\n".encode()
        start(problem.status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _problem(self, environ: Environ) -> _Problem | None:
        # The check of the host stops DNS rebinding: a foreign name that resolves to this machine is rejected.
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
        # Python refuses to convert very long digit strings, so the length of the text is checked first.
        if length and (len(length) > 9 or int(length) > LONGEST_BODY):
            return _Problem("413 Content Too Large", f"A request has at most {LONGEST_BODY} bytes.")
        if posts and str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower() != _FORM:
            return _Problem("415 Unsupported Media Type", f"Forms are sent as {_FORM}.")
        if posts and not _is_same_origin(environ):
            return _Problem("403 Forbidden", "Forms are taken from the site's own pages only.")
        return None


def _is_same_origin(environ: Environ) -> bool:
    """Return True if a form's origin is this site, or if the client states none, as programs other than browsers."""
    site_origin = f"http://{environ['HTTP_HOST']}".lower()
    origin = str(environ.get("HTTP_ORIGIN", site_origin)).lower()
    return origin == site_origin and str(environ.get("HTTP_SEC_FETCH_SITE", "same-origin")) == "same-origin"
