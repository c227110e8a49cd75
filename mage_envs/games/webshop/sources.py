"""Where a shop's catalogue comes from: generated, or converted from the original's files; built on first use."""

from __future__ import annotations

import os
from pathlib import Path

from mage_envs.games.webshop.cache import MANIFEST
from mage_envs.games.webshop.embedded import embedded
from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.shop import Shop, open_shop

GOALS = ("synthetic", "human")


def shop_for(
    split: str, size: str, data: str | os.PathLike[str] | None, goals: str | None, price_seed: int
) -> Shop:  # fmt: skip
    """The shop that these options of the game name; the processes of a machine share its files.

    Raises ValueError for options that do not fit together, DataFileError for the original's files.
    """
    if not isinstance(price_seed, int) or isinstance(price_seed, bool):
        raise ValueError(f"price_seed={price_seed!r} must be a whole number.")
    if data is None:
        if goals is not None or price_seed:
            raise ValueError("The built-in catalogue has its own goals and prices: leave goals and price_seed out.")
        return open_shop(embedded(size, split), "made", 0)
    if goals not in (None, *GOALS):
        raise ValueError(f"goals={goals!r} is unknown; choose one of: {', '.join(map(repr, GOALS))}.")
    source = Path(data)
    folder = source if (source / MANIFEST).is_file() else import_official(source, size)
    return open_shop(folder, goals or GOALS[0], price_seed)
