"""Games of OpenSpiel: any by its string, five with ids and texts of their own. pyspiel loads when one is made."""

from mage_envs.games.openspiel.game import OpenSpiel
from mage_envs.games.openspiel.loading import UnsuitableGame
from mage_envs.games.openspiel.titles import Breakthrough, ConnectFour, LeducPoker, LiarsDice, Negotiation

__all__ = ["Breakthrough", "ConnectFour", "LeducPoker", "LiarsDice", "Negotiation", "OpenSpiel", "UnsuitableGame"]
