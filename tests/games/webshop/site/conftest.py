"""Visitors of the hand-written shop, of one that attacks its pages, and of one with a goal of secret words."""

from __future__ import annotations

import pytest

from tests.games.webshop.site.shops import HOSTILE, SECRET, Visitor, goal, write_shop
from tests.untrusted.harmless import ATTACKS


@pytest.fixture(scope="session")
def hostile_shop(tmp_path_factory):
    human = {
        f"B0HOSTILE{number}": goal(f"i want {attack}", [attack], [attack]) for number, attack in enumerate(ATTACKS)
    }
    human["a/b?c#d%2f"] = goal("i want an address", ["blue"], ["blue"])
    return write_shop(tmp_path_factory.mktemp("hostile"), HOSTILE, {"B0HOSTILE0": {}}, human)


@pytest.fixture(scope="session")
def secret_shop(tmp_path_factory):
    human = {"B0SECRET00": goal("i need a light for the tent", ["secretattribute"], ["secretoption"])}
    attributes = {"B0SECRET00": {"attributes": ["secretattribute"]}}
    return write_shop(tmp_path_factory.mktemp("secret"), SECRET, attributes, human)


@pytest.fixture
def visitor(shop):
    """Return a factory of visitors of the hand-written shop. The visitors start outside."""

    def make(**options):
        return Visitor(shop, **options)

    return make


@pytest.fixture
def hostile(hostile_shop):
    return Visitor(hostile_shop)
