"""Pictures of games: shapes as data (`picture`), letters made of them, each game's board, and a window to show them."""

from mage_envs.drawing.picture import Block, Disc, Picture, Stroke, paint
from mage_envs.drawing.window import Window

__all__ = ["Block", "Disc", "Picture", "Stroke", "Window", "paint"]
