"""The Flask application of the shop."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.views import NOTICES, Views
from mage_envs.games.webshop.site.watching import Watches
from mage_envs.web.application import make_app
from mage_envs.web.security import Tokens, host_names
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
        shop: The shop.
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
