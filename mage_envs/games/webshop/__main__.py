"""`python -m mage_envs.games.webshop`; see `command`."""

import sys

from mage_envs.games.webshop.command import main

sys.exit(main())
