"""The opponent `checkpoint:<folder>`, a model that mage train or the demo saved."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium as gym

from mage_envs.core import Game
from mage_envs.loading.arguments import Rest
from mage_envs.loading.extras import requires
from mage_envs.loading.imports import check_path
from mage_envs.opponents.llm.opponent import LanguageModelPolicy, settings_for
from mage_envs.text.styles import DEFAULT_STYLE, as_style
from mage_envs.trainer.backends.play_settings import PlaySettings, load_generator

if TYPE_CHECKING:
    from mage_envs.text.generation import Generator


def checkpoint(game: Game, folder: Rest) -> LanguageModelPolicy:
    """Return the opponent `checkpoint:<folder>`, a saved model with the prompt format that it was trained with.

    Each model is loaded once per process, and again if it was saved again.

    Args:
        game: Game that the opponent plays.
        folder: Folder of the saved model.

    Returns:
        A policy that plays the game with the model.

    Raises:
        FileNotFoundError: If the folder does not exist.
        ValueError: If the model was trained on another game.
        ImportError: If a package of the extra `train` is missing.
    """
    path = Path(folder)
    check_path(path, "opponent")
    if not path.is_dir():
        raise FileNotFoundError(f"Opponent 'checkpoint:{path}': no such folder. Pass the folder of a saved model.")
    # The newest time stamp is part of the cache key, so that a model that was saved again is loaded again.
    generator, play_settings = _load_model(
        path.resolve(), max(file.stat().st_mtime_ns for file in (path, *path.iterdir()))
    )
    trained_on = gym.spec(play_settings.env_id).kwargs["game_name"]
    if trained_on != game.spec.name:
        raise ValueError(
            f"Opponent 'checkpoint:{path}' was trained on {trained_on} and does not play {game.spec.name}."
        )
    style = as_style(play_settings.env_kwargs.get("style", DEFAULT_STYLE), game.spec)
    episodes = play_settings.env_kwargs.get("num_episodes", 3)
    return LanguageModelPolicy(
        generator=generator, facts=game.spec, style=style, num_episodes=episodes, settings=settings_for(game.spec)
    )


@lru_cache(maxsize=16)
def _load_model(folder: Path, saved_at: int) -> tuple[Generator, PlaySettings]:
    """Load the model; `saved_at` is the time stamp of its newest file in nanoseconds."""
    # First without torch, so that a damaged folder is reported even if a package is missing.
    PlaySettings.load(folder)
    with requires(f"The model in {folder}", "train"):
        generator, settings = load_generator(folder)
    return generator, settings
