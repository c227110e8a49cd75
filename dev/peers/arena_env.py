"""Game of TextArena as a Gymnasium environment and as a meta-episode: a complete adapter for a foreign environment.

Importing this module registers `peers/GuessTheNumber-Meta-v0`. TextArena is imported when an environment is made.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym

from mage_envs import FreeText, MetaEpisode

GAME = "GuessTheNumber-v0-raw"
"""TextArena's id of the game. With `-raw`, an observation contains only texts that are new."""
ID = "peers/GuessTheNumber-Meta-v0"
RULES = (
    "Guess a secret number from 1 to 20 in at most ten guesses. Each guess is a number in square brackets, as in [5]; "
    "after it you are told whether the secret number is higher or lower. Of two invalid guesses in a row the second "
    "ends the episode."
)


class ArenaEnv(gym.Env[str, str]):
    """Game of TextArena for one player, with text actions and text observations.

    The reward is TextArena's, and it is paid at the end. TextArena draws from Python's global random generator. A reset
    with a seed seeds this generator, so an episode is reproducible if the game draws nothing after its reset.
    """

    def __init__(self, game: str = GAME) -> None:
        # Imported here, so that the id can be registered without TextArena.
        self._arena = importlib.import_module("textarena").make(game)
        self.observation_space = FreeText()
        self.action_space = FreeText()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._arena.reset(num_players=1, seed=seed)
        return self._news()[0], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play an action in TextArena's notation, in square brackets."""
        over = bool(self._arena.step(action)[0])
        text, refused = self._news()
        if not over:
            return text, 0.0, False, False, {"invalid_reason": "invalid" if refused else None}
        rewards, about = self._arena.close()
        reward, refused = float(rewards[0]), bool(about[0]["invalid_move"])
        info = {"invalid_reason": "invalid" if refused else None, "success": reward >= 1}
        return "\n".join(part for part in (text, about[0]["reason"]) if part), reward, True, False, info

    def _news(self) -> tuple[str, bool]:
        """Return the texts since the last call, without the player's own, and True if a move was refused."""
        # TextArena sends a message of kind GAME_ADMIN if it refuses a move.
        messages = [(text, kind.name) for _, text, kind in self._arena.get_observation()[1]]
        text = "\n".join(text for text, kind in messages if kind != "PLAYER_ACTION")
        return text, any(kind == "GAME_ADMIN" for _, kind in messages)


def make_meta(**options: Any) -> MetaEpisode:
    """Return the meta-episode; the entry point of the id."""
    # The same number in each episode, so that knowledge of it helps.
    return MetaEpisode(ArenaEnv(), rules=RULES, deal="replay", max_turns=20, **options)


if ID not in gym.registry:
    gym.register(ID, entry_point=f"{__name__}:make_meta")
