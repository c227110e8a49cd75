"""WebShop in a browser: the pages of the environment's own shop, for people, and to watch an agent play.

It needs flask and waitress (`pip install "mage-envs[webshop]"`), which are loaded when a site is made.
"""

from mage_envs.games.webshop.site.application import create_app
from mage_envs.games.webshop.site.server import Site
from mage_envs.games.webshop.site.watching import AgentWatch, WatchedEnv

__all__ = ["AgentWatch", "Site", "WatchedEnv", "create_app"]
