"""Pictures of games: shapes as data (`picture`), letters from shapes, each game's board, and a window."""

from mage_envs.drawing.picture import Block, Disc, Picture, Stroke, paint
from mage_envs.drawing.window import Window

__all__ = ["Block", "Disc", "Picture", "Stroke", "Window", "paint"]
