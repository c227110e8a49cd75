"""Tiny language models with random weights: the demo's word-level one, and one for any text (`--model tiny`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SPECIAL_WORDS = ("<pad>", "<bos>", "<eos>", "<unk>")

WORD_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %} {{ message.content }}"
    "{% if message.role == 'assistant' and turn_end %} {{ eos_token }}{% endif %}{% endfor %} "
)
"""Template that joins the contents with spaces; the reply follows without a marker."""

CHAT_TEMPLATE = """\
{%- set last = namespace(user=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'assistant' and loop.index0 < last.user and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""
"""Template like Qwen3's: turn markers, and no thinking of earlier turns."""


def tiny_tokenizer(words: Sequence[str], turn_end: bool = False) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer: one id per word between spaces, after four special words. Other words are `<unk>`.

    An action of several words, such as `offer 3`, is one id too, and is written and read with its spaces.

    Its chat template only joins the contents, so that a conversation's ids are those of the running text. `turn_end`
    puts `<eos>` after every reply.
    """
    distinct = dict.fromkeys((*SPECIAL_WORDS, *words))
    unfit = [word for word in distinct if not word or " ".join(word.split()) != word]
    if unfit:
        raise ValueError(f"Words must be non-empty, with single spaces inside at most; got {unfit[0]!r}.")
    phrases = [word for word in distinct if " " in word]
    vocabulary = {word: index for index, word in enumerate(word for word in distinct if " " not in word)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_tokens([AddedToken(phrase, single_word=True, normalized=False) for phrase in phrases])
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )
    tokenizer.chat_template = "{% set turn_end = " + str(turn_end).lower() + " %}" + WORD_TEMPLATE
    return tokenizer


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one id per byte and a Qwen-like chat template. It reads and writes any text."""
    vocabulary = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocabulary, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        extra_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_model(
    vocab_size: int,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    initializer_range: float = 0.1,
    max_positions: int = 1024,
    seed: int = 0,
) -> Qwen3ForCausalLM:
    """Return a Qwen3 with random weights, tied embeddings and no dropout: 87,616 parameters at a vocabulary of 83.

    The weights depend on the arguments only, and torch's global random state does not change.

    Args:
        hidden: Size of the hidden states.
        heads: Attention heads, which share `hidden`.
        initializer_range: Standard deviation of the weights.
        max_positions: Longest sequence in tokens.
    """
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        max_position_embeddings=max_positions,
        initializer_range=initializer_range,
        tie_word_embeddings=True,
        attention_dropout=0.0,
    )
    # The constructor draws initial weights from torch's global generator. They are replaced below.
    with torch.random.fork_rng(devices=[]):
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            # Norms stay at one.
            if weight.ndim > 1:
                weight.normal_(0.0, initializer_range, generator=generator)
    model.train(False)
    return model


def save_tiny(folder: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """Write model and tokenizer into a folder and return it. TRL can load them from there for the reference model.

    Args:
        model: The model; its special ids and its name are set.
    """
    parts: tuple[Any, ...] = (model.config, model.generation_config)
    for part in filter(None, parts):
        part.pad_token_id, part.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
        part.bos_token_id = tokenizer.bos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model.config.name_or_path = str(folder)
    return str(folder)


def general_tiny(folder: str | Path, seed: int = 0) -> str:
    """Save a tiny byte-level model (one layer of 32) that reads any prompt text; return the folder."""
    tokenizer = byte_tokenizer()
    model = tiny_model(len(tokenizer), hidden=32, layers=1, heads=2, max_positions=32_768, seed=seed)
    return save_tiny(folder, model, tokenizer)
