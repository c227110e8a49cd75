"""Reference players of WebShop."""

from mage_envs.opponents.registry import register_opponent

_PLAYERS, _GAMES = "mage_envs.opponents.solo.webshop", ("WebShop",)

register_opponent("webshop/oracle", entry_point=f"{_PLAYERS}:WebShopOracle", games=_GAMES, needs_game=True)
for _name in ("rule", "first", "next"):
    register_opponent(f"webshop/{_name}", entry_point=f"{_PLAYERS}:WebShop{_name.capitalize()}", games=_GAMES)
