"""MAGE Envs: multi-agent text environments and meta-episodes for language agents.

Importing this package registers the ids in Gymnasium and PettingZoo. It does not import torch or pyspiel. The public
names of `opponents` and `wrappers` are available here too. They are loaded on first use.
"""

from typing import Any

from mage_envs.core import (
    ExactPolicy,
    Game,
    GameSpec,
    HandResult,
    IllegalAction,
    NotEnumerable,
    Policy,
    RemembersMetaEpisode,
    SeesResults,
    State,
    StatePolicy,
    Task,
    Turn,
)
from mage_envs.env import TextGameEnv
from mage_envs.games import register_games
from mage_envs.hand import Hand, OpponentFailure
from mage_envs.info import PUBLIC_KEYS, public_info
from mage_envs.loading import siblings
from mage_envs.match import MatchResult, play_match
from mage_envs.registry import UnknownGame, list_games, load_game, load_plugins, make_game, register_game, settings_of
from mage_envs.settings import GameSettings
from mage_envs.spaces import FreeText
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import Reply, parse_tag
from mage_envs.text.plain import Plain
from mage_envs.text.prompts import ContinueView, EpisodeRecord, Frame, PlayView, PromptStyle, ReflectView, TurnRecord

__version__ = "0.1.0"

_ABOVE = {
    "Answer": "wrappers",
    "EpisodicMemory": "wrappers",
    "MemoryStrategy": "wrappers",
    "MemoryView": "wrappers",
    "MetaEpisode": "wrappers",
    "OpponentPool": "opponents",
    "Panel": "benchmarks",
    "Prose": "mage_envs.text.prose",
    "Protocol": "wrappers",
    "Related": "mage_envs.related",
    "Request": "wrappers",
    "UnknownOpponent": "opponents",
    "list_forms": "opponents",
    "list_memories": "wrappers",
    "list_opponents": "opponents",
    "list_panels": "benchmarks",
    "list_pools": "opponents",
    "make_opponent": "opponents",
    "opponent_info": "opponents",
    "panel": "benchmarks",
    "register_memory": "wrappers",
    "register_opponent": "opponents",
    "register_pool": "opponents",
    "register_related": "opponents.related",
}
"""Public names that are imported on first use, with the module of each: packages above this one, and rare parts."""
_RENAMED = {"panel": "named_panel"}
"""Names that differ in their package."""

__all__ = [
    "PUBLIC_KEYS",
    "Answer",
    "Completion",
    "ContinueView",
    "EpisodeRecord",
    "EpisodicMemory",
    "ExactPolicy",
    "Frame",
    "FreeText",
    "Game",
    "GameSettings",
    "GameSpec",
    "Generator",
    "Hand",
    "HandResult",
    "IllegalAction",
    "MatchResult",
    "MemoryStrategy",
    "MemoryView",
    "Message",
    "MetaEpisode",
    "NotEnumerable",
    "OpponentFailure",
    "OpponentPool",
    "Panel",
    "Plain",
    "PlayView",
    "Policy",
    "Prompt",
    "PromptStyle",
    "Prose",
    "Protocol",
    "ReflectView",
    "Related",
    "RemembersMetaEpisode",
    "Reply",
    "Request",
    "SeesResults",
    "State",
    "StatePolicy",
    "Task",
    "TextGameEnv",
    "Turn",
    "TurnRecord",
    "UnknownGame",
    "UnknownOpponent",
    "list_forms",
    "list_games",
    "list_memories",
    "list_opponents",
    "list_panels",
    "list_pools",
    "load_game",
    "make_game",
    "make_opponent",
    "opponent_info",
    "panel",
    "parse_tag",
    "play_match",
    "public_info",
    "register_game",
    "register_memory",
    "register_opponent",
    "register_pool",
    "register_related",
    "settings_of",
]


def __getattr__(name: str) -> Any:
    """Return a name of the packages above. Raises ImportError if a module of the user hides such a package."""
    if name in _ABOVE:
        # Not `vars`, because `benchmarks` loads its own names on first access too.
        return getattr(siblings.load(_ABOVE[name]), _RENAMED.get(name, name))
    raise AttributeError(f"module 'mage_envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_games()
# Plug-ins come last: a game of this package keeps its name if another package announces the same one.
load_plugins()
