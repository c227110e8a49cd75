"""A window on the screen, drawn by pygame, which is imported for the first window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Window:
    """A window for images. It opens with the first image. Raises ImportError if pygame is not installed."""

    def __init__(self, title: str, fps: int) -> None:
        try:
            import pygame
        except ImportError as error:
            raise ImportError(
                'render_mode="human" needs pygame. Install it with: pip install "mage-envs[render]"'
            ) from error
        self._pygame: Any = pygame
        self._title = title
        self._fps = fps
        self._surface: Any = None
        self._clock: Any = None

    def show(self, image: NDArray[np.uint8]) -> None:
        """Show an image of shape (height, width, 3), then wait for the rest of its 1 / fps seconds."""
        pygame, size = self._pygame, (image.shape[1], image.shape[0])
        if self._surface is None:
            # Only the display: `pygame.init` would also start sound, which servers do not have.
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._clock = pygame.time.Clock()
        if self._surface is None or self._surface.get_size() != size:
            self._surface = pygame.display.set_mode(size)
        # pygame's arrays have the shape (width, height, 3).
        pygame.surfarray.blit_array(self._surface, image.swapaxes(0, 1))
        # Without this, the desktop would mark the window as not responding.
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window. The next image opens it again."""
        if self._surface is not None:
            self._pygame.display.quit()
            self._surface = None
