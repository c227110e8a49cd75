"""The warm start: language modelling on random legal play, in a run's own prompts, before its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mage_envs.random.streams import SEED_BITS, Stream, fold
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.model_folder import load_tokenizer
from mage_envs.trainer.backends.tiny import save_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer, Ids, PromptFormat
from mage_envs.trainer.backends.weights import load_model, local_folder
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.trl.setup import env_maker

PLAYED = 512
"""Most meta-episodes of random play. Further steps train on the same ones again."""
LEARNING_RATE, BATCH = 3e-4, 16
"""Learning rate for a pretrained model, and meta-episodes per step."""


def warm_copy(model: str, folder: Path, config: RunSettings, steps: int, resumes: bool = False) -> str:
    """Save a copy of a pretrained model after a warm start of all its weights; return the folder.

    The weights are float32 during the steps, and are saved in the model's own type.

    Args:
        model: Folder of the model, or its name on the hub.
        folder: Folder to write.
        config: Settings of the run.
        steps: Steps of language modelling.
        resumes: True to keep the copy that an earlier process of the run saved.

    Raises:
        ValueError: If the model cannot be loaded.
    """
    if resumes and (folder / "config.json").is_file():
        return str(folder)
    source = local_folder(model)
    # transformers declares `float` and `to` without types.
    loaded: Any = load_model(source)
    tokenizer, kind = load_tokenizer(source), loaded.dtype
    warm_start(loaded.float(), tokenizer, config, steps, LEARNING_RATE, BATCH, autocast=kind is torch.bfloat16)
    return save_tiny(folder, loaded.to(kind), tokenizer)


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: RunSettings,
    steps: int,
    learning_rate: float,
    batch_size: int,
    autocast: bool = False,
) -> None:
    """Train with AdamW on batches of meta-episodes of random legal play, in turn.

    Args:
        model: Model to train, on any device.
        tokenizer: Its tokenizer.
        config: Settings of the run, whose opponents and prompts are played.
        steps: Number of optimiser steps.
        learning_rate: Learning rate, constant.
        batch_size: Meta-episodes per step.
        autocast: True to multiply matrices in bfloat16, in half the time on a CPU with instructions for it.
    """
    tokens = ChatTokenizer(tokenizer, PromptFormat(system_prompt=config.system_prompt, date=config.prompt_date))
    played = min(PLAYED, steps * batch_size)
    rows = [_random_play(env_maker(config)(), tokens, fold(config.seed, number)) for number in range(played)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    model.train(True)
    for step in range(steps):
        batch = [rows[(step * batch_size + row) % played] for row in range(batch_size)]
        width = max(map(len, batch))
        # (B, T), padded on the right. Labels are -100 at the padding, and the model shifts them itself.
        ids = torch.tensor([[*row, *[tokens.pad_id] * (width - len(row))] for row in batch])
        # Not by the id: a tokenizer may pad with its end token, which the chat contains.
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
        # One context per step: autocast keeps its copies of the weights until the context ends.
        with torch.autocast(model.device.type, torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    model.train(False)


def _random_play(env: gym.Env[str, str], tokens: ChatTokenizer, seed: int) -> Ids:
    """Return the ids of the chat of a meta-episode of random legal play."""
    rng = Stream(fold(seed)).generator()
    _, info = env.reset(seed=seed % 2**SEED_BITS)
    while True:
        legal = info["legal_actions"]
        answer, tag = legal[int(rng.integers(len(legal)))] if legal else "", info["answer_tag"]
        answer = answer if tag is None else f"<{tag}>{answer}</{tag}>"
        chat = tuple(Message(**message) for message in info["messages"])
        _, _, terminated, truncated, info = env.step(answer)
        if terminated or truncated:
            return tokens.encode(Prompt(chat)) + tokens.encode_reply(answer)
