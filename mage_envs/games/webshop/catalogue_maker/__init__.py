"""Makes a shop's catalogue by rule: products in families of near duplicates, and goals that tell them apart."""

from mage_envs.games.webshop.catalogue_maker.goals import CatalogueGoal
from mage_envs.games.webshop.catalogue_maker.make import (
    SIZES,
    SPLITS,
    TYPOS,
    VERSION,
    FamilyRecord,
    Made,
    about,
    make,
    stream,
)

__all__ = ["SIZES", "SPLITS", "TYPOS", "VERSION", "CatalogueGoal", "FamilyRecord", "Made", "about", "make", "stream"]
