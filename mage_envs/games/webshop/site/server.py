"""`Site`: the shop with its server, on a loopback address by default."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.application import create_app
from mage_envs.games.webshop.site.watching import AgentWatch, Watches
from mage_envs.web.server import LocalSite
from mage_envs.web.visits import Visits

if TYPE_CHECKING:
    from flask import Flask


class Site(LocalSite):
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

    Raises the errors of `LocalSite`.
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
        visits: Visits[Session] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._watches = Watches()
        self._images = images

        def create(hosts: Collection[str], port: int) -> Flask:
            return create_app(
                shop,
                hosts=hosts,
                cookie=f"webshop-{port}",
                images=images,
                shows_attributes=shows_attributes,
                visits=visits,
                watches=self._watches,
                rng=rng,
            )

        super().__init__(
            create, title="WebShop's site", extra="webshop", host=host, port=port, exposed=exposed, names=names
        )

    def watch(self, title: str) -> AgentWatch:
        """Return a page for an agent's sessions. The browser opens its `url`, and the agent calls its `show`."""
        return self._watches.add(title, self.url, self._images)
