"""Compiled games are kept apart from the user's, and shared by the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGE_ENVS_CACHE", str(tmp_path_factory.mktemp("alfworld-cache")))
        yield
