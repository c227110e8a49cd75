"""The model `words`: a small transformer over a game's own words, with a warm start on random play."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import torch
from transformers import PreTrainedModel

from mage_envs.core import Game
from mage_envs.random.streams import SEED_BITS, Stream, fold
from mage_envs.text.generation import Message, Prompt
from mage_envs.text.words.vocabulary import vocabulary
from trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from trainer.backends.tokens import ChatTokenizer, Ids, PromptFormat
from trainer.config.run_settings import RunSettings
from trainer.trl.setup import env_maker

NAME = "words"
"""Name of the model, and of the prompt style that it reads."""
PLAYED, BATCH = 512, 32
"""Meta-episodes of random play in the warm start, and how many of them a step trains on."""


def words_model(folder: Path, config: RunSettings, warm_start: int) -> str:
    """Save a model with random weights for the run's game, of some 90,000 parameters; return the folder.

    Args:
        folder: Folder to write.
        config: Settings of the run.
        warm_start: Steps of language modelling on transcripts of random legal play against the run's opponents (0:
            none).

    Raises:
        ValueError: If the run's prompts are not of the style `words`.
    """
    if config.prompt_style != NAME:
        raise ValueError(f"The model 'words' reads prompts of prompt_style=words, not {config.prompt_style!r} ones.")
    env = env_maker(config)()
    game: Game = env.get_wrapper_attr("game")
    tokenizer = tiny_tokenizer(vocabulary(game))
    model = tiny_model(len(tokenizer), max_positions=8192, seed=config.seed)
    if warm_start:
        tokens = ChatTokenizer(tokenizer, PromptFormat(system_prompt=config.system_prompt))
        _warm(model, tokens, config, warm_start)
    return save_tiny(folder, model, tokenizer)


def _warm(model: PreTrainedModel, tokens: ChatTokenizer, config: RunSettings, steps: int) -> None:
    """Train with AdamW on batches of `BATCH` of `PLAYED` meta-episodes of random legal play, in turn."""
    rows = [_random_play(env_maker(config)(), tokens, fold(config.seed, number)) for number in range(PLAYED)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    model.train(True)
    for step in range(steps):
        batch = [rows[(step * BATCH + row) % PLAYED] for row in range(BATCH)]
        width = max(map(len, batch))
        # (B, T), padded on the right. Labels are -100 at the padding, and the model shifts them itself.
        ids = torch.tensor([[*row, *[tokens.pad_id] * (width - len(row))] for row in batch])
        mask = ids != tokens.pad_id
        loss = model(input_ids=ids, attention_mask=mask.long(), labels=ids.masked_fill(~mask, -100)).loss
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
        answer = legal[int(rng.integers(len(legal)))] if legal else ""
        chat = tuple(Message(**message) for message in info["messages"])
        _, _, terminated, truncated, info = env.step(answer)
        if terminated or truncated:
            return tokens.encode(Prompt(chat)) + tokens.encode_reply(answer)
