"""`LocalSite`: an application with its server, on a loopback address by default."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Collection
from threading import Thread
from typing import TYPE_CHECKING, Self

from mage_envs.loading.extras import requires
from mage_envs.web.security import host_names, is_loopback

if TYPE_CHECKING:
    from flask import Flask


def open_port(
    host: str, port: int, *, exposed: bool, names: Collection[str], title: str
) -> tuple[socket.socket, frozenset[str]]:
    """Return a listening socket, and the accepted values of the Host header, which contain its port.

    Args:
        port: Port to listen on; 0 selects a free port.
        exposed: If True, `host` may be an address that other machines reach.
        names: Additional host names in the requests of browsers.
        title: Name of the server in the warning that it is open.

    Raises:
        ValueError: If other machines can reach `host` and `exposed` is False.
        OSError: If the port is in use.
    """
    if not is_loopback(host):
        if not exposed:
            raise ValueError(
                f"host={host!r} can be reached from other machines, and there is no log-in: use 127.0.0.1, or set "
                "exposed=True (--exposed)."
            )
        warnings.warn(f"{title} on {host} is open to all machines that can reach it.", stacklevel=4)
        names = (*names, host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=host == "::")
    return listening, host_names(listening.getsockname()[1], names)


class LocalSite:
    """A site on a port of this machine. It is a context manager that serves in a thread while it is open."""

    def __init__(
        self,
        create_app: Callable[[Collection[str], int], Flask],
        *,
        title: str,
        extra: str,
        host: str = "127.0.0.1",
        port: int = 0,
        exposed: bool = False,
        names: Collection[str] = (),
    ) -> None:
        """Open the port and make the application.

        Args:
            create_app: Function that makes the application from the accepted values of the Host header and the port.
            title: Name of the site in messages.
            extra: Extra of this project that installs flask and waitress.
            host: Address to listen on. An address other than loopback requires `exposed=True`.
            port: Port to listen on; 0 selects a free port.
            exposed: If True, other machines may reach the site, which has no log-in.
            names: Additional host names in the requests of browsers.

        Raises:
            ValueError: If other machines can reach `host` and `exposed` is False.
            ImportError: If flask or waitress is not installed.
            OSError: If the port is in use.
        """
        with requires("The site", extra):
            from mage_envs.web.serving import Server
        self._thread: Thread | None = None
        # The port is bound before the application is made, because host names and cookie contain the port.
        listening, hosts = open_port(host, port, exposed=exposed, names=names, title=title)
        self.port: int = listening.getsockname()[1]
        self.url = f"http://{_format_host(host)}:{self.port}"
        try:
            app = create_app(hosts, self.port)
            self._server = Server(app, listening)
        except BaseException:
            listening.close()
            raise

    def serve(self) -> None:
        """Serve until `close` or Ctrl-C."""
        self._server.serve()

    def __enter__(self) -> Self:
        self._thread = Thread(target=self.serve, name="site", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and release the port."""
        # The server's connections may be closed only after its loop has ended.
        if self._thread is not None:
            self._server.end()
            self._thread.join()
            self._thread = None
        self._server.close()


def _format_host(host: str) -> str:
    """Return a listening address in the form of a URL. A wildcard address becomes a loopback address."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
