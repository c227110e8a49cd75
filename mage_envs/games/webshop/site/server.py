"""`Site`: the application behind a small threaded server, for loopback unless told otherwise."""

from __future__ import annotations

import logging
import socket
import socketserver
import warnings
from collections.abc import Collection
from threading import BoundedSemaphore, Thread
from types import TracebackType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import numpy as np

from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.application import create_app
from mage_envs.games.webshop.site.security import HEADERS, content_policy, host_names, is_loopback
from mage_envs.games.webshop.site.visits import Visits
from mage_envs.games.webshop.site.watching import Watch, Watches

MOST_CONNECTIONS = 64
_LOG = logging.getLogger(__name__)


class _Connection(WSGIRequestHandler):
    """One request: a log line for those who listen, and no word to the client about what it sent."""

    timeout = 10
    default_request_version = "HTTP/1.0"  # what is no HTTP is answered with headers, too
    error_message_format = "%(code)d\n"
    error_content_type = "text/plain; charset=utf-8"

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "REQUEST_URI": self.path}

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError) as error:
            _LOG.debug("lost a connection: %r", error)

    def address_string(self) -> str:
        """The client's address; its name is not looked up."""
        return str(self.client_address[0])

    def log_message(self, format: str, *arguments: Any) -> None:
        _LOG.debug(format, *arguments)

    def version_string(self) -> str:
        return HEADERS["Server"]

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what is no HTTP, without the words in which the parser complains: they repeat the request."""
        super().send_error(code)

    def end_headers(self) -> None:
        """Ends the headers of such an answer; all others leave through the guard."""
        for name, value in {**HEADERS, "Content-Security-Policy": content_policy(False)}.items():
            if name != "Server":
                self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """A thread per connection, and so many connections at most."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), _Connection)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the base class would look the host's name up
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(timeout=0.05):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


class Site:
    """WebShop's site over a shop, on a port of this machine; a context that serves in a thread while it is open.

    `host` other than loopback needs `exposed=True`: the site has no log-in. `names`: further names under which
    browsers may ask for it. `port` 0 takes a free one. The other options are those of `create_app`.
    """

    def __init__(
        self,
        shop: Shop,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        exposed: bool = False,
        names: Collection[str] = (),
        images: bool = False,
        shows_attributes: bool = False,
        visits: Visits | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not is_loopback(host):
            if not exposed:
                raise ValueError(
                    f"host={host!r} can be reached from other machines, and the site has no log-in: leave it at "
                    "127.0.0.1, or say exposed=True (--exposed)."
                )
            warnings.warn(f"WebShop's site on {host} is open to everybody who reaches it.", stacklevel=2)
            names = (*names, host)
        self._server = _Server(host, port)
        self.port = self._server.server_port
        self.url = f"http://{_named(host)}:{self.port}"
        self._watches = Watches()
        self._images = images
        self._thread: Thread | None = None
        app = create_app(
            shop,
            hosts=host_names(self.port, names),
            cookie=f"webshop-{self.port}",
            images=images,
            shows_attributes=shows_attributes,
            visits=visits,
            watches=self._watches,
            rng=rng,
        )
        self._server.set_app(app)

    def watch(self, title: str) -> Watch:
        """A page to look at an agent's sessions on; its `url` is for the browser, its `show` for the agent's side."""
        return self._watches.add(title, self.url, self._images)

    def serve(self) -> None:
        """Serves until `close` or Ctrl-C."""
        self._server.serve_forever(poll_interval=0.1)

    def __enter__(self) -> Site:
        self._thread = Thread(target=self.serve, name="webshop-site", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving and frees the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()


def _named(host: str) -> str:
    """A listening address as it stands in a URL; a wildcard is reached under this machine's loopback name."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
