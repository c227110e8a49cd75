"""`examples.fifth_game`: a training on four games, measured in the fifth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.fifth_game import study, table
from mage_envs.benchmarks.evaluation.run.agents import SavedModelAgent
from mage_envs.games.encounters import GAMES


@pytest.mark.more
def test_the_fifth_game_is_new_to_the_model(tmp_path: Path) -> None:
    rows = study(tmp_path, rollouts=1, seed=0, games=["answer"], panel="encounters-related-16")
    settings = SavedModelAgent(tmp_path / "answer").settings
    assert settings.env_kwargs["games"] == [game for game in GAMES if game != "answer"]
    words = json.loads((tmp_path / "answer" / "tokenizer.json").read_text())["model"]["vocab"]
    assert "answer" in words
    # Exact values: the best blind answer earns .35, and the other games do not show the opponent's refusals.
    assert rows[0]["blind"]["mean"] == pytest.approx(0.35)
    assert rows[0]["optimal"]["mean"] == pytest.approx(0.35)
    assert 0 < rows[0]["with memory"]["mean"] <= 0.35
    assert len(table(rows).rows) == 1
    # A finished model is not trained again.
    saved = (tmp_path / "answer" / "model.safetensors").read_bytes()
    assert study(tmp_path, rollouts=1, seed=5, games=["answer"], panel="encounters-related-16") == rows
    assert (tmp_path / "answer" / "model.safetensors").read_bytes() == saved
