"""The folder for everything that is built once and can be built again."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "MAGE_ENVS_CACHE"


def cache_root() -> Path:
    """Return `$MAGE_ENVS_CACHE` if it is set, else `~/.cache/mage-envs`."""
    path = os.environ.get(VARIABLE)
    return Path(path).expanduser() if path else Path.home() / ".cache" / "mage-envs"
