"""The model `words`: a small transformer over a game's own words, which may imitate players first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.core import Game
from mage_envs.random.streams import Stream, fold
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from mage_envs.trainer.cli.imitation import Imitation, imitate
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.config.words_size import NAME, words_size
from mage_envs.trainer.trl.setup import env_maker

SAMPLED = 200
"""Episodes of random play that give the words of another project's environment."""
IMITATION: Mapping[str, Any] = {"learning_rate": 3e-3, "rows": 32}
"""Settings of an imitation from random weights."""


def words_model(
    folder: Path,
    config: RunSettings,
    imitation: Imitation | None = None,
    name: str = NAME,
    resumes: bool = False,
) -> str:
    """Save a model with random weights for the run's game, of some 90,000 parameters by default; return the folder.

    Args:
        folder: Folder to write.
        config: Settings of the run.
        imitation: Players to imitate, and how, or None.
        name: `words`, with or without its size.
        resumes: True to keep the model that an earlier process of the run saved.

    Raises:
        ValueError: If the run's prompts are not of the style `words`, or if an environment of another project does not
            list legal actions, or expects them in tags.
    """
    if resumes and (folder / "config.json").is_file():
        return str(folder)
    env = env_maker(config)()
    if not env.has_wrapper_attr("game"):
        words = _words_of_play(env, config)
    elif config.prompt_style != NAME:
        raise ValueError(f"The model 'words' reads prompts of prompt_style=words, not {config.prompt_style!r} ones.")
    else:
        game: Game = env.get_wrapper_attr("game")
        words = vocabulary(game)
    tokenizer = tiny_tokenizer(words)
    size = words_size(name)
    # A wider layer sums more products, so its weights are smaller: .1 at a width of 64.
    spread = 0.8 / size.hidden**0.5
    model = tiny_model(len(tokenizer), **vars(size), initializer_range=spread, max_positions=8192, seed=config.seed)
    if imitation is not None and imitation.players:
        imitate(model, tokenizer, config, imitation)
    return save_tiny(folder, model, tokenizer)


def _words_of_play(env: gym.Env[str, str], config: RunSettings) -> tuple[str, ...]:
    """Return the legal actions and the words of the observations in random play of another project's environment."""
    rng = Stream(fold(config.seed)).generator()
    actions: dict[str, None] = {}
    words: set[str] = set()
    for number in range(SAMPLED):
        observation, info = env.reset(seed=number)
        over = False
        while not over:
            legal = info.get("legal_actions")
            if not legal:
                raise ValueError(
                    f"--model words needs info['legal_actions'] with every observation of {config.env_id}. List them "
                    f"there, or use --model tiny, which writes any text."
                )
            if info.get("answer_tag") is not None:
                raise ValueError(
                    f"--model words writes bare actions, and {config.env_id} expects them in <{info['answer_tag']}> "
                    f"tags. Train on the environment without MetaEpisode, or use --model tiny, which writes any text."
                )
            actions |= dict.fromkeys(legal)
            words.update(observation.split())
            observation, _, terminated, truncated, info = env.step(legal[int(rng.integers(len(legal)))])
            over = terminated or truncated
        words.update(observation.split())
    return tuple(dict.fromkeys([*actions, *sorted(words)]))
