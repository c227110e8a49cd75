"""The hand-written catalogue as a shop, in a cache of the test run's own."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.shop import open_shop
from tests.games.webshop.raw import write_official


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGE_ENVS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with the official files of the hand-written catalogue."""
    return write_official(tmp_path_factory.mktemp("official"))


@pytest.fixture(scope="session")
def shop(data):
    return open_shop(import_official(data), "synthetic", 0)


@pytest.fixture(scope="session")
def human_shop(data):
    return open_shop(import_official(data), "human", 0)


@pytest.fixture
def visit(shop):
    """Starts a session and plays actions that must all mean something."""

    def start(*actions, goal="B000000001-s0", **options):
        session = Session(shop, shop.goal(goal), **options)
        for action in actions:
            assert session.play(action), action
        return session

    return start


@pytest.fixture
def rng():
    return np.random.default_rng(0)
