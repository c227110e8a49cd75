"""Dropout is off in a model that is trained, whichever attribute its architecture reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import disable_dropout_in_model

from mage_envs.trainer.backends.rows import disable_functional_dropout

SIZES: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
GPT2: dict[str, Any] = {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
GPT_NEO: dict[str, Any] = {**SIZES, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]}
OPT: dict[str, Any] = {**SIZES, "ffn_dim": 32, "word_embed_proj_dim": 16}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**SIZES, "attention_dropout": 0.1},
    "qwen2": {**SIZES, "attention_dropout": 0.1},
    "qwen3": {**SIZES, "attention_dropout": 0.1, "head_dim": 8},
    "gpt2": {**GPT2, "attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "gpt_neox": {**SIZES, "attention_dropout": 0.1, "hidden_dropout": 0.1},
    "phi": {**SIZES, "attention_dropout": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "opt": {**OPT, "attention_dropout": 0.1, "dropout": 0.1},
    # These read the config in each forward pass.
    "falcon": {**SIZES, "attention_dropout": 0.1, "hidden_dropout": 0.1},
    "gpt_neo": {**GPT_NEO, "attention_dropout": 0.1, "resid_dropout": 0.1, "embed_dropout": 0.1},
    "gptj": {**GPT2, "rotary_dim": 8, "attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1},
    "persimmon": {**SIZES, "attention_dropout": 0.1, "hidden_dropout": 0.1},
    "gemma2": {**SIZES, "attention_dropout": 0.1, "head_dim": 8},
}
EAGER_ONLY = ("gpt_neo", "gptj")
"""Architectures for which transformers has no other attention."""


@pytest.mark.parametrize(
    ("kind", "attention"),
    [(kind, how) for kind in CONFIGS for how in ("eager", "sdpa") if how == "eager" or kind not in EAGER_ONLY],
)
def test_two_forward_passes_in_training_are_equal(kind: str, attention: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **CONFIGS[kind])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).train()
    ids = torch.arange(1, 31)[None]
    assert not torch.equal(model(ids).logits, model(ids).logits), "the config has dropout"
    disable_dropout_in_model(model)  # as TRL does before
    disable_functional_dropout(model)
    assert torch.equal(model(ids).logits, model(ids).logits)
