"""Tests of ALFWorld are skipped where alfworld is not installed; they keep compiled games in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage_envs.games.alfworld.scenes import is_installed

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    if not is_installed():
        skip = pytest.mark.skip(reason='alfworld is not installed; pip install "mage-envs[alfworld]" brings it')
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(skip)


@pytest.fixture(autouse=True, scope="package")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGE_ENVS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
