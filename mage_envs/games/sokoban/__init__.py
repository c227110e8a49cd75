"""Sokoban: rules and text (`game`), levels (`level`), exact search (`search`) and sources of rooms."""

from mage_envs.games.sokoban.boxoban import load_levels
from mage_envs.games.sokoban.game import SETTINGS, Sokoban, SokobanState
from mage_envs.games.sokoban.level import MOVES, Level, parse_board, step
from mage_envs.games.sokoban.rooms import RetrogradeRooms, Room
from mage_envs.games.sokoban.search import Retrograde

__all__ = [
    "MOVES",
    "SETTINGS",
    "Level",
    "Retrograde",
    "RetrogradeRooms",
    "Room",
    "Sokoban",
    "SokobanState",
    "load_levels",
    "parse_board",
    "step",
]
