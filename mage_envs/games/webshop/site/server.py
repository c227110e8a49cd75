"""`Site`: the application with its server, on a loopback address by default."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Collection
from threading import Thread

import numpy as np

from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.application import create_app, needed
from mage_envs.games.webshop.site.security import host_names, is_loopback
from mage_envs.games.webshop.site.visits import Visits
from mage_envs.games.webshop.site.watching import AgentWatch, Watches


class Site:
    """WebShop's site on a port of this machine. It is a context manager that serves in a thread while it is open.

    Args:
        shop: The shop.
        host: Address to listen on. An address other than loopback requires `exposed=True`.
        port: Port to listen on; 0 selects a free port.
        exposed: If True, other machines may reach the site, which has no log-in.
        names: Additional host names in the requests of browsers.
        images: See `create_app`.
        shows_attributes: See `create_app`.
        visits: See `create_app`.
        rng: See `create_app`.

    Raises:
        ValueError: If other machines can reach `host` and `exposed` is False.
        ImportError: If flask or waitress is not installed.
        OSError: If the port is in use.
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
                    f"host={host!r} can be reached from other machines, and the site has no log-in: use 127.0.0.1, "
                    "or set exposed=True (--exposed)."
                )
            warnings.warn(f"WebShop's site on {host} is open to all machines that can reach it.", stacklevel=2)
            names = (*names, host)
        serving = needed("mage_envs.games.webshop.site.serving")
        self._watches = Watches()
        self._images = images
        self._thread: Thread | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The port is bound before the application is made, because host names and cookie contain the port.
        listening = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=host == "::")
        self.port: int = listening.getsockname()[1]
        self.url = f"http://{_named(host)}:{self.port}"
        try:
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
            self._server = serving.Server(app, listening)
        except BaseException:
            listening.close()
            raise

    def watch(self, title: str) -> AgentWatch:
        """Return a page for an agent's sessions. The browser opens its `url`, and the agent calls its `show`."""
        return self._watches.add(title, self.url, self._images)

    def serve(self) -> None:
        """Serve until `close` or Ctrl-C."""
        self._server.serve()

    def __enter__(self) -> Site:
        self._thread = Thread(target=self.serve, name="webshop-site", daemon=True)
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


def _named(host: str) -> str:
    """Return a listening address in the form of a URL. A wildcard address becomes a loopback address."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
