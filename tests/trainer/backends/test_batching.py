"""Batches and caches of many architectures against replies that are played alone and without a cache."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.batching import Batching, check_full_attention, probe_batching
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.tiny import byte_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer, make_completion

TOKENS = ChatTokenizer(byte_tokenizer())
SIZE = {
    "vocab_size": len(TOKENS.tokenizer),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
NEW_TOKENS = 6
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("ragged", {}),
    "Qwen2": ("ragged", {}),
    "Qwen3": ("ragged", {"head_dim": 8}),
    "Cohere": ("ragged", {}),
    "Olmo2": ("ragged", {}),
    "GPT2": ("ragged", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "GPTNeoX": ("ragged", {}),
    "Bloom": ("ragged", {"n_layer": 2, "n_head": 4}),
    "Mistral": ("even", {"sliding_window": 24, "head_dim": 8}),
    "Mixtral": ("even", {"sliding_window": 24}),
    "Phi3": ("even", {"sliding_window": 24}),
    "Starcoder2": ("even", {"sliding_window": 24}),
    "Gemma2": ("even", {"sliding_window": 24, "head_dim": 8}),
    "Mpt": ("even", {"d_model": 32, "n_layers": 2, "n_heads": 4}),
    "Falcon": ("ragged", {"alibi": True}),
    "Mamba": ("whole", {"state_size": 4}),
}
"""Way in which each architecture is played, and its own settings."""


def build_model(kind: str) -> PreTrainedModel:
    """Return a tiny model with weights so large that attention matters."""
    library: Any = transformers
    settings = {**SIZE, **ARCHITECTURES[kind][1]}
    name = f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    torch.manual_seed(0)
    model: PreTrainedModel = getattr(library, name)(getattr(library, f"{kind}Config")(**settings)).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.35)
    return model


def reply_alone(model: PreTrainedModel, prompt: Prompt) -> Completion:
    ids, out = list(TOKENS.encode(prompt)), list[int]()
    while len(out) < NEW_TOKENS and not (out and out[-1] in TOKENS.end_ids):
        with torch.no_grad():
            logits = model(torch.tensor([ids + out]), use_cache=False).logits
        out.append(int(logits[0, -1].argmax()))
    return make_completion(prompt, TOKENS, tuple(ids), tuple(out), None, NEW_TOKENS)


def play(generate: Any) -> list[tuple[int, ...]]:
    """Return the replies of two turns of conversations whose lengths differ."""
    texts = [("a" * 5, "b" * 60), ("x" * 50, "y"), ("q" * 5, "r" * 60)]
    chats: list[tuple[Message, ...]] = [() for _ in texts]
    previous: Sequence[Completion | None] = [None] * len(texts)
    replies: list[tuple[int, ...]] = []
    for turn in range(2):
        chats = [(*chat, Message("user", text[turn])) for chat, text in zip(chats, texts, strict=True)]
        previous = generate(
            [Prompt(chat, slot=n, seed=(n, turn), previous=previous[n]) for n, chat in enumerate(chats)]
        )
        chats = [(*chat, Message("assistant", reply.text)) for chat, reply in zip(chats, previous, strict=True)]  # type: ignore[union-attr]
        replies += [reply.ids for reply in previous]  # type: ignore[union-attr]
    return replies


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_replies_as_it_does_alone(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model = build_model(kind)
    sampling = Sampling(NEW_TOKENS, temperature=0.0)
    with caplog.at_level(logging.WARNING):
        generators = HFGenerator(model, TOKENS, sampling), CachedGenerator(model, TOKENS, sampling)
    single_replies = play(lambda prompts: [reply_alone(model, prompt) for prompt in prompts])
    for generator in generators:
        assert generator.batching.way == ARCHITECTURES[kind][0]
        assert play(generator.generate) == single_replies
    # The log-probabilities of whole replies, in a batch and alone.
    prompts = [Prompt((Message("user", text),)) for text in ("a", "b" * 40)]
    batch_scores = generators[0].score(prompts, [["bet"], ["check", "x"]])
    single = [
        generators[0].score([prompt], [[text]])[0][0] for prompt, text in zip(prompts, ("bet", "check"), strict=True)
    ]
    torch.testing.assert_close(
        torch.tensor([batch_scores[0][0], batch_scores[1][0]]), torch.tensor(single), rtol=1e-3, atol=1e-3
    )
    lines = [record.getMessage() for record in caplog.records if record.name == "mage_envs.trainer.backends.batching"]
    assert len(lines) == (ARCHITECTURES[kind][0] != "ragged"), "said once per model"


def test_a_model_without_attention_is_not_trained() -> None:
    check_full_attention(build_model("Mistral"))
    with pytest.raises(ValueError, match="other replies in a padded batch or from a cache than alone, so it cannot be"):
        check_full_attention(build_model("Mamba"))


def test_the_probe_leaves_the_model_as_it_was() -> None:
    model = build_model("Mistral").train()
    config_before = model.config.to_dict()
    assert probe_batching(model) == Batching("even", padded=True)
    assert model.config.to_dict() == config_before
    assert model.training
    assert str(probe_batching(model)) == "played in batches of prompts of equal length only"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_is_not_a_difference(dtype: torch.dtype) -> None:
    assert probe_batching(build_model("Llama").to(dtype)).way == "ragged"
    for kind in ("Mistral", "Mpt"):
        assert probe_batching(build_model(kind).to(dtype)).way == "even"
