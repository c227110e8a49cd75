"""`Site`: the shop with its server, on a loopback address by default."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.views import NOTICES, Views
from mage_envs.games.webshop.site.watching import AgentWatch, Watches
from mage_envs.web.application import make_app
from mage_envs.web.security import Tokens, host_names
from mage_envs.web.server import LocalSite
from mage_envs.web.visits import Visits

if TYPE_CHECKING:
    from flask import Flask

    from mage_envs.games.webshop.session import Session


def create_app(
    shop: Shop,
    *,
    hosts: Collection[str] = host_names(3000),
    cookie: str = "webshop",
    images: bool = False,
    shows_attributes: bool = False,
    visits: Visits[Session] | None = None,
    watches: Watches | None = None,
    rng: np.random.Generator | None = None,
) -> Flask:
    """Return the site for `shop` as a WSGI application.

    Args:
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
    return make_app(
        "mage_envs.games.webshop.site",
        views.routes(),
        tokens,
        hosts=hosts,
        cookie=cookie,
        notices=NOTICES,
        extra="webshop",
        images=images,
    )


if TYPE_CHECKING:
    from flask import Flask


class Site(LocalSite):
    """WebShop's site on a port of this machine. It is a context manager that serves in a thread while it is open.

    Args:
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
