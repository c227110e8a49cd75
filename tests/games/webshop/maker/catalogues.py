"""Catalogues that several tests read, made once."""

from functools import cache

from mage_envs.games.webshop.catalogue_maker import make


@cache
def catalogue(size="small", seed=0):
    return make(size, seed)
