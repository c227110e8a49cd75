"""WebShop in a browser: the pages of the environment's shop for people, and for watching an agent.

The site requires flask and waitress (`pip install "mage-envs[webshop]"`). They are imported when a site is made.
"""

from mage_envs.games.webshop.site.server import Site, create_app
from mage_envs.games.webshop.site.watching import AgentWatch, WatchedEnv

__all__ = ["AgentWatch", "Site", "WatchedEnv", "create_app"]
