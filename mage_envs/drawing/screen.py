"""Rendering of an environment: its render modes, images and window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import GameSpec, State
from mage_envs.drawing import Window, paint

FPS = 4
"""Images per second, in a window and in videos."""
DRAWN = ("rgb_array", "human")
"""Render modes that need a picture of the game."""


def render_modes(spec: GameSpec) -> list[str]:
    """Return the modes of a game: `ansi`, and `rgb_array` and `human` if it has pictures."""
    return ["ansi", *(DRAWN if spec.has_pictures else ())]


class Screen:
    """The pictures of one environment's states. Raises ValueError for a mode that the game does not have."""

    def __init__(self, spec: GameSpec, mode: str | None) -> None:
        modes = render_modes(spec)
        if mode is not None and mode not in modes:
            lacks = f"{spec.name} has no picture, only text: " if mode in DRAWN else ""
            raise ValueError(f"render_mode={mode!r}: {lacks}choose one of: None, {', '.join(map(repr, modes))}.")
        self._window = Window(f"MAGE Envs: {spec.name}", FPS) if mode == "human" else None
        self.metadata: dict[str, Any] = {"render_modes": modes, "render_fps": FPS}

    def image(self, state: State, player: int) -> NDArray[np.uint8]:
        """Return the player's view as an image of shape (height, width, 3)."""
        return paint(state.picture(player))

    def show(self, state: State, player: int) -> None:
        """Show the player's view in the window, if the mode is `human`."""
        if self._window is not None:
            self._window.show(self.image(state, player))

    def close(self) -> None:
        """Close the window if one is open."""
        if self._window is not None:
            self._window.close()
