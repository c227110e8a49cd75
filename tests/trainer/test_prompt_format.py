"""What a model is trained on is what it is evaluated on: ends of turns, template arguments, system prompt, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mage_envs.text.generation import Message, Prompt
from tests.trainer.tiny_runs import make_trainer
from trainer import trl_compat
from trainer.tiny import byte_tokenizer, save_tiny, tiny_model


def base_model(folder: Path) -> str:
    """A model like a base model: its tokenizer's EOS is not the token with which its template ends a turn."""
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    model = tiny_model(len(tokenizer), hidden=16, layers=1, heads=2, initializer_range=0.02, max_positions=32_768)
    return save_tiny(folder, model, tokenizer)


def test_base_models_stop_at_the_end_of_a_turn(tmp_path: Path) -> None:
    trainer: Any = make_trainer(base_model(tmp_path / "model"), tmp_path, None, max_completion_length=256)
    tokens = trainer.generator.tokens
    assert tokens.turn_end_id != tokens.tokenizer.eos_token_id
    assert tokens.end_ids == {tokens.turn_end_id, tokens.tokenizer.eos_token_id}
    prompts = [list(tokens.encode(Prompt((Message("user", "Bet?"),))))] * 16
    replies, _ = trl_compat.generate_ids(trainer, prompts, np.arange(16, dtype=np.uint64))
    assert any(reply[-1] == tokens.turn_end_id for reply in replies)
    assert not any(tokens.turn_end_id in reply[:-1] for reply in replies)
