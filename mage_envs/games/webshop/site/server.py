"""`Site`: the application behind its server, for loopback unless told otherwise."""

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
        serving = needed("mage_envs.games.webshop.site.serving")
        self._watches = Watches()
        self._images = images
        self._thread: Thread | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
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
        """A page to look at an agent's sessions on; its `url` is for the browser, its `show` for the agent's side."""
        return self._watches.add(title, self.url, self._images)

    def serve(self) -> None:
        """Serves until `close` or Ctrl-C."""
        self._server.serve()

    def __enter__(self) -> Site:
        self._thread = Thread(target=self.serve, name="webshop-site", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving and frees the port."""
        if self._thread is not None:
            self._server.end()
            self._thread.join()
            self._thread = None
        self._server.close()


def _named(host: str) -> str:
    """A listening address as it stands in a URL; a wildcard is reached under this machine's loopback name."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
