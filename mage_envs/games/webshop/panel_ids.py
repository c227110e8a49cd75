"""Tasks of panels of WebShop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.games.webshop.catalogue_maker import goal_ids
from mage_envs.games.webshop.game import WebShop

LARGE, SMALL = 512, 128
"""Tasks of a panel: the first of them belong to every smaller one."""


def made_ids(options: Mapping[str, Any], size: int) -> Sequence[str]:
    """Return goals of a split in rounds, one of each generated catalogue, each at even steps in its catalogue."""
    split, catalogues = options["split"], options["catalogues"]
    rounds = -(-LARGE // catalogues)
    found = [goal_ids(split, rounds, size=options["size"], seed=seed) for seed in range(catalogues)]
    # Interleaving puts every fourth goal first, so that the goals of the small panel spread over the same range as all
    # goals of the large one.
    step = LARGE // SMALL
    order = [place for start in range(step) for place in range(rounds)[start::step]]
    return [ids[place] for place in order for ids in found][:size]


def official_ids(options: Mapping[str, Any], size: int) -> Sequence[str]:
    """Return the first goals of a split of the original data. Raise ValueError if `data` is not set."""
    if "data" not in options:
        raise ValueError("This panel requires the original data. Use --game-option data=FOLDER.")
    chosen = {key: options[key] for key in ("data", "goals", "size", "price_seed") if key in options}
    game = WebShop(options["split"], compat=True, **chosen)
    numbers = game.shop.numbers(options["split"], upstream=True)
    return [game.shop.goal_at(int(number)).id for number in numbers[:size]]
