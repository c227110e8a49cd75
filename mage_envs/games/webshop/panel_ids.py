"""Tasks of panels of WebShop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.games.webshop.catalogue_maker.make import goal_ids
from mage_envs.games.webshop.game import WebShop

LARGE, SMALL = 512, 128
"""Tasks of a panel: the first of them belong to every smaller one."""


def made_ids(options: Mapping[str, Any], size: int) -> Sequence[str]:
    """Return goals of a split in rounds, one of each generated catalogue, each at even steps in its catalogue."""
    split, catalogues = options["split"], options["catalogues"]
    rounds = -(-LARGE // catalogues)
    catalogue_ids = [goal_ids(split, rounds, size=options["size"], seed=seed) for seed in range(catalogues)]
    # Interleaving puts every fourth goal first, so that the goals of the small panel spread over the same range as all
    # goals of the large one.
    step = LARGE // SMALL
    order = [index for start in range(step) for index in range(rounds)[start::step]]
    return [ids[index] for index in order for ids in catalogue_ids][:size]


def official_ids(options: Mapping[str, Any], size: int) -> Sequence[str]:
    """Return the first goals of a split of the original data. Raise ValueError if `data` is not set."""
    if "data" not in options:
        raise ValueError("This panel requires the original data. Use --game-option data=FOLDER.")
    shop_options = {key: options[key] for key in ("data", "goals", "size", "price_seed") if key in options}
    game = WebShop(options["split"], compat=True, **shop_options)
    numbers = game.shop.numbers(options["split"], upstream=True)
    return [game.shop.goal_at(int(number)).id for number in numbers[:size]]
