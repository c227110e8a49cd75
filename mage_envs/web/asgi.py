"""A guard for ASGI applications: it rejects requests that a foreign page makes through a browser of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class OriginGuard:
    """An ASGI layer that checks the headers Host and Origin of every request and WebSocket.

    Args:
        inner: The application.
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
