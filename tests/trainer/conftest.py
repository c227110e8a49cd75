"""The model of tests that train."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    # Imports torch, which few of the tests in this folder's parts need.
    from tests.trainer.tiny_runs import save_model

    return save_model(tmp_path_factory.mktemp("model"))
