"""Hidden facts of WebShopCustomer, the customers, and players that measure the value of knowing them."""

from __future__ import annotations

from mage_envs.games.webshop_customer.tastes import customers
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.related import register_facts

_GAME, _PREFIX = "WebShopCustomer", "customer"

register_facts(
    _GAME,
    _PREFIX,
    dict.fromkeys(customers("taste"), 1.0),
    about="errands for families of products that training never shows, for every customer",
    options={"split": "val", "size": "medium"},
)
register_pool(f"{_PREFIX}/fit", {f"{_PREFIX}:{fact}": 1.0 for fact in customers("fit")})
for _name in ("blind", "memory", "known", "wrong"):
    _entry = f"mage_envs.opponents.solo.shoppers:{_name.capitalize()}Shopper"
    register_opponent(f"{_PREFIX}/{_name}", entry_point=_entry, games=(_GAME,), needs_game=True)
