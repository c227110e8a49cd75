"""Rendering of an environment: its render modes, images and window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import GameSpec, State
from mage_envs.drawing.picture import load_pygame, paint

FPS = 4
"""Images per second, in a window and in videos."""
DRAWN = ("rgb_array", "human")
"""Render modes that need a picture of the game."""


def render_modes(spec: GameSpec) -> list[str]:
    """Return the modes of a game: `ansi`, and `rgb_array` and `human` if it has pictures."""
    return ["ansi", *(DRAWN if spec.has_pictures else ())]


class Screen:
    """The pictures of one environment's states, as images or in a window, which opens with the first image.

    Raises ValueError for a mode that the game does not have, and ImportError if pygame-ce is needed and not installed.
    """

    def __init__(self, spec: GameSpec, mode: str | None) -> None:
        modes = render_modes(spec)
        if mode is not None and mode not in modes:
            lacks = f"{spec.name} has no picture, only text: " if mode in DRAWN else ""
            raise ValueError(f"render_mode={mode!r}: {lacks}choose one of: None, {', '.join(map(repr, modes))}.")
        # A missing package must stop gym.make, not a render() in the middle of a run.
        if mode in DRAWN:
            load_pygame()
        self.metadata: dict[str, Any] = {"render_modes": modes, "render_fps": FPS}
        self._title = f"MAGE Envs: {spec.name}"
        self._in_window = mode == "human"
        self._window: Any = None
        self._clock: Any = None

    def image(self, state: State, player: int) -> NDArray[np.uint8]:
        """Return the player's view as an image of shape (height, width, 3)."""
        return paint(state.picture(player))

    def show(self, state: State, player: int) -> None:
        """Show the player's view in the window, if the mode is `human`, then wait out its 1 / FPS seconds."""
        if not self._in_window:
            return
        pygame, image = load_pygame(), self.image(state, player)
        size = (image.shape[1], image.shape[0])
        if self._window is None:
            # Only the display: `pygame.init` would also start sound, which servers do not have.
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._clock = pygame.time.Clock()
        if self._window is None or self._window.get_size() != size:
            self._window = pygame.display.set_mode(size)
        # pygame's arrays have the shape (width, height, 3).
        pygame.surfarray.blit_array(self._window, image.swapaxes(0, 1))
        # Without this, the desktop would mark the window as not responding.
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(FPS)

    def close(self) -> None:
        """Close the window if one is open. The next image opens it again."""
        if self._window is not None:
            load_pygame().display.quit()
            self._window = None
