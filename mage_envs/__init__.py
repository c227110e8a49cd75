"""MAGE Envs: multi-agent text environments and meta-episodes for language agents.

Importing this package registers the ids in Gymnasium and PettingZoo; it loads neither torch nor pyspiel.
"""

from pathlib import Path

from mage_envs import _siblings

_siblings.check(Path(__file__).resolve().parent.parent)

from mage_envs.core import (  # noqa: E402
    ExactPolicy,
    HandResult,
    IllegalAction,
    Policy,
    RemembersMetaEpisode,
    SeesResults,
    Task,
    TextGame,
    Turn,
)
from mage_envs.env import OpponentFailure, TextGameEnv  # noqa: E402
from mage_envs.match import MatchResult, play_match  # noqa: E402
from mage_envs.registry import UnknownGame, list_games, load_game, load_plugins, make_game, register_game  # noqa: E402
from mage_envs.spaces import FreeText  # noqa: E402
from mage_envs.text.generation import Completion, Generator, Message, Prompt  # noqa: E402
from mage_envs.text.parser import Reply, parse_tag  # noqa: E402
from mage_envs.text.prompts import ContinueView, EpisodeRecord, PlayView, PromptStyle, Prose, ReflectView, TurnRecord  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "Completion",
    "ContinueView",
    "EpisodeRecord",
    "ExactPolicy",
    "FreeText",
    "Generator",
    "HandResult",
    "IllegalAction",
    "MatchResult",
    "Message",
    "OpponentFailure",
    "PlayView",
    "Policy",
    "Prompt",
    "PromptStyle",
    "Prose",
    "ReflectView",
    "RemembersMetaEpisode",
    "Reply",
    "SeesResults",
    "Task",
    "TextGame",
    "TextGameEnv",
    "Turn",
    "TurnRecord",
    "UnknownGame",
    "list_games",
    "load_game",
    "make_game",
    "parse_tag",
    "play_match",
    "register_game",
]

register_game("TicTacToe", "mage_envs.games.tictactoe:TicTacToe")
register_game("KuhnPoker", "mage_envs.games.kuhn_poker:KuhnPoker")
register_game("Sokoban", "mage_envs.games.sokoban:Sokoban")
register_game("WebShop", "mage_envs.games.webshop:WebShop")
register_game("ALFWorld", "mage_envs.games.alfworld:ALFWorld")
for _name in ("LeducPoker", "ConnectFour", "LiarsDice", "Negotiation", "Breakthrough", "OpenSpiel"):
    register_game(_name, f"mage_envs.games.openspiel:{_name}")
load_plugins()
