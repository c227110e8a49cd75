"""Pictures of games: shapes as data (`picture`), each game's board, and the render modes (`screen`)."""

from mage_envs.drawing.picture import Block, Disc, Picture, Stroke, Text, paint

__all__ = ["Block", "Disc", "Picture", "Stroke", "Text", "paint"]
