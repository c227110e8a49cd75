"""Games of OpenSpiel: any game by its string, five of them with their own ids and texts.

pyspiel is imported when the first game is made.
"""

from mage_envs.games.openspiel.loading import UnsuitableGame
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.registered import Breakthrough, ConnectFour, LeducPoker, LiarsDice, Negotiation

__all__ = ["Breakthrough", "ConnectFour", "LeducPoker", "LiarsDice", "Negotiation", "OpenSpiel", "UnsuitableGame"]
