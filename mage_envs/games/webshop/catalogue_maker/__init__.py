"""Generator of a shop's catalogue: products in families of near duplicates, and goals that distinguish them."""

from mage_envs.games.webshop.catalogue_maker.goals import CatalogueGoal
from mage_envs.games.webshop.catalogue_maker.make import (
    SIZES,
    SPLITS,
    TYPOS,
    VERSION,
    FamilyRecord,
    certificates,
    family_of,
    goal_ids,
    seed_of,
    stream,
)

__all__ = [
    "SIZES",
    "SPLITS",
    "TYPOS",
    "VERSION",
    "CatalogueGoal",
    "FamilyRecord",
    "certificates",
    "family_of",
    "goal_ids",
    "seed_of",
    "stream",
]
