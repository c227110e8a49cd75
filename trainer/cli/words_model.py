"""The model `words`: a small transformer over a game's own words, with a warm start on random play."""

from __future__ import annotations

from pathlib import Path

from mage_envs.core import Game
from mage_envs.text.words.vocabulary import vocabulary
from trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from trainer.cli.warm_start import warm_start
from trainer.config.run_settings import RunSettings
from trainer.trl.setup import env_maker

NAME = "words"
"""Name of the model, and of the prompt style that it reads."""
LEARNING_RATE, BATCH = 3e-3, 32
"""Learning rate of the warm start from random weights, and meta-episodes per step."""


def words_model(folder: Path, config: RunSettings, warm_steps: int) -> str:
    """Save a model with random weights for the run's game, of some 90,000 parameters; return the folder.

    Args:
        folder: Folder to write.
        config: Settings of the run.
        warm_steps: Steps of language modelling on transcripts of random legal play against the run's opponents (0:
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
    if warm_steps:
        warm_start(model, tokenizer, config, warm_steps, LEARNING_RATE, BATCH)
    return save_tiny(folder, model, tokenizer)
