"""WebShop: purchases in a simulated shop by instruction (Yao et al. 2022)."""

from mage_envs.games.webshop.cache import DamagedCache
from mage_envs.games.webshop.game import SETTINGS, WebShop, WebShopState
from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.official import DataFileError, import_official
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.shop import Shop, open_shop

__all__ = [
    "SETTINGS",
    "DamagedCache",
    "DataFileError",
    "Goal",
    "Product",
    "Session",
    "Shop",
    "WebShop",
    "WebShopState",
    "import_official",
    "open_shop",
]
