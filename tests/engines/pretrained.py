"""The folder of SmolLM2, which is built once per session from the Python index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from mage_envs.trainer.backends.packaged import get_packaged_folder


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the model; its GGUF file is beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGE_ENVS_CACHE", str(tmp_path_factory.mktemp("cache")))
        assert main(["doctor", "hf:smollm2"]) == 0
        folder = get_packaged_folder("smollm2")
        assert folder is not None
        yield folder
