"""How an environment shows its game: which render modes there are, images, and a window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import TextGame
from mage_envs.drawing import Window, paint

FPS = 4
"""Images a second, in a window and in videos."""
DRAWN = ("rgb_array", "human")
"""Modes of games that have a picture."""


def render_modes(game: TextGame) -> list[str]:
    """The modes that `game` has: `ansi`, and `rgb_array` and `human` where it has a picture."""
    return ["ansi", *(DRAWN if type(game).picture is not TextGame.picture else ())]


class Screen:
    """The pictures of one environment's game. Raises ValueError for a mode that the game does not have."""

    def __init__(self, game: TextGame, mode: str | None) -> None:
        modes = render_modes(game)
        if mode is not None and mode not in modes:
            lacks = f"{game.name} has no picture, only text: " if mode in DRAWN else ""
            raise ValueError(f"render_mode={mode!r}: {lacks}choose one of: None, {', '.join(map(repr, modes))}.")
        self._game = game
        self._window = Window(f"MAGE Envs: {game.name}", FPS) if mode == "human" else None
        self.metadata: dict[str, Any] = {"render_modes": modes, "render_fps": FPS}

    def image(self, player: int) -> NDArray[np.uint8]:
        """What `player` may see now, of shape (height, width, 3)."""
        return paint(self._game.picture(player))

    def show(self, player: int) -> None:
        """Shows it in the window, in mode `human`."""
        if self._window is not None:
            self._window.show(self.image(player))

    def close(self) -> None:
        """Closes the window, if one is open."""
        if self._window is not None:
            self._window.close()
