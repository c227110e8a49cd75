"""Facts about a model in a folder or on the hub, as `mage doctor` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.batching import probe_batching
from mage_envs.trainer.backends.play_settings import with_ends
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat
from mage_envs.trainer.backends.weights import (
    base_of,
    check_vocabulary,
    generation_config,
    load_model,
    load_tokenizer,
    local_folder,
    positions_of,
)


def probe_model(name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact that a probe of the model finds.

    Raises ValueError if the model cannot chat, end a reply or be loaded.
    """
    folder = local_folder(name)
    tokenizer = load_tokenizer(folder)
    tokens = ChatTokenizer(tokenizer, with_ends(PromptFormat(), generation_config(folder)))
    yield "model", str(folder)
    if (base := base_of(folder)) is not None:
        yield "adapter of", str(base)
    yield from tokens.reply_format.describe(tokenizer)
    prompt: Any = tokenizer.decode(list(tokens.encode(Prompt((Message("user", "Hello"),)))))
    yield "a prompt", repr(prompt)
    model = load_model(folder)
    check_vocabulary(model, tokenizer)
    embeddings: Any = model.get_input_embeddings()
    yield "vocabulary", f"{len(tokenizer)} ids, {embeddings.weight.shape[0]} embeddings"
    positions = positions_of(folder)
    yield "positions", "no limit" if positions is None else str(positions)
    batching = probe_batching(model)
    yield "replies", f"{batching}"
    yield "training", "padded rows" if batching.trains else "refused: padding or a cache changes its replies"
