"""Reference player of Sokoban."""

from mage_envs.opponents.registry import register_opponent

register_opponent("sokoban/expert", entry_point="mage_envs.opponents.solo.sokoban:SokobanExpert", games=("Sokoban",))
