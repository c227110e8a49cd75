"""Sources of a shop's catalogue: generated, or converted from the original's files. The first use builds it."""

from __future__ import annotations

import os
from pathlib import Path

from mage_envs.games.webshop.cache import MANIFEST
from mage_envs.games.webshop.embedded import generate_catalogue
from mage_envs.games.webshop.goal_tables import read_goals
from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.shop import Shop, open_shop
from mage_envs.loading.imports import check_path

GOALS = ("synthetic", "human")


def shop_for(
    split: str = "train",
    size: str = "small",
    data: str | os.PathLike[str] | None = None,
    goals: str | os.PathLike[str] | None = None,
    price_seed: int = 0,
    title_tagger: str = "builtin",
    catalogue: int = 0,
) -> Shop:
    """Return the shop for these options of the game. The processes of a machine share its files.

    Args:
        split: Split of the goals. `ood_catalogue` selects the held-out catalogue.
        size: Size of the built-in catalogue, or of the original's data.
        data: Folder with the original's files, or a folder that `import_official` built.
        goals: `synthetic`, `human`, or a file of the user's own goals (`*.json`).
        price_seed: Seed of the prices, for the original's data.
        title_tagger: Name of the tagger of titles.
        catalogue: Seed of the built-in catalogue.

    Returns:
        The shop, which environments of a process share.

    Raises:
        ValueError: If the options do not fit together.
        DataFileError: If a file of the original is missing or malformed.
        ImportError: If the tagger is not installed.
    """
    if not isinstance(price_seed, int) or isinstance(price_seed, bool):
        raise ValueError(f"price_seed={price_seed!r} must be a whole number.")
    has_user_goals = goals is not None and str(goals).endswith(".json")
    if data is None:
        if (goals is not None and not has_user_goals) or price_seed:
            raise ValueError(
                "The built-in catalogue has its own goals and prices: remove price_seed, and remove goals unless it "
                "names a file of your own goals (*.json)."
            )
        # The seed is fixed, so that all environments of a size have the same prices.
        shop = open_shop(generate_catalogue(size, split, catalogue), "made", 0, title_tagger)
    else:
        if goals not in (None, *GOALS) and not has_user_goals:
            raise ValueError(
                f"goals={str(goals)!r} is unknown; choose one of: {', '.join(map(repr, GOALS))}, or name a file of "
                f"your own goals (*.json)."
            )
        # A folder with a manifest is a built one, so it is opened as it is.
        check_path(data, "data")
        source = Path(data)
        folder = source if (source / MANIFEST).is_file() else import_official(source, size)
        kind = GOALS[0] if goals is None or has_user_goals else str(goals)
        shop = open_shop(folder, kind, price_seed, title_tagger)
    return shop.with_goals(read_goals(goals)) if goals is not None and has_user_goals else shop
