"""Reference players of the games for one player, in the learner's own seat. Importing this registers their names.

Entry points are strings, so that no module of a game is imported before its player is made.
"""

from mage_envs.opponents.registry import register_opponent

_ALFWORLD, _SOKOBAN, _WEBSHOP = ("ALFWorld",), ("Sokoban",), ("WebShop",)

register_opponent("alfworld/expert", entry_point=f"{__name__}.alfworld:ALFWorldExpert", games=_ALFWORLD)
register_opponent(
    "alfworld/oracle", entry_point=f"{__name__}.alfworld:ALFWorldOracle", games=_ALFWORLD, needs_game=True
)
register_opponent(
    "alfworld/expert-without-memory", entry_point=f"{__name__}.alfworld:expert_without_memory", games=_ALFWORLD
)
register_opponent("sokoban/expert", entry_point=f"{__name__}.sokoban:SokobanExpert", games=_SOKOBAN)
register_opponent("webshop/oracle", entry_point=f"{__name__}.webshop:WebShopOracle", games=_WEBSHOP, needs_game=True)
for _name in ("rule", "first", "next"):
    _entry = f"{__name__}.webshop:WebShop{_name.capitalize()}"
    register_opponent(f"webshop/{_name}", entry_point=_entry, games=_WEBSHOP)
