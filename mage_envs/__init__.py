"""MAGE Envs: multi-agent text environments and meta-episodes for language agents.

Importing this package registers the ids in Gymnasium and PettingZoo. It does not import torch or pyspiel. The public
names of `opponents` and `wrappers` are available here too. They are loaded on first use.
"""

import sys
from importlib import import_module
from typing import Any

from mage_envs import interrupts

if interrupts.is_program():
    # This is the first import of the program, and Ctrl-C must end it with one line from here on.
    interrupts.catch()

from mage_envs.core import (
    Game,
    GameSpec,
    HandResult,
    IllegalAction,
    NotEnumerable,
    Policy,
    State,
    Task,
    Turn,
)
from mage_envs.env import TextGameEnv
from mage_envs.game_record import GameRecord, load_records, register_record
from mage_envs.games import register_games
from mage_envs.hand import Hand, OpponentFailure
from mage_envs.info import PUBLIC_KEYS, public_info
from mage_envs.match import MatchResult, play_match
from mage_envs.registry import UnknownGame, list_games, load_game, load_plugins, make_game, register_game, settings_of
from mage_envs.settings import GameSettings
from mage_envs.spaces import FreeText
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import Reply, parse_tag
from mage_envs.text.plain import Plain
from mage_envs.text.prompts import ContinueView, EpisodeRecord, Frame, PlayView, PromptStyle, ReflectView, TurnRecord
from mage_envs.text.words.spelling import ObservationWords

__version__ = "0.1.0"

_ABOVE = {
    "Answer": "mage_envs.wrappers",
    "EpisodicMemory": "mage_envs.wrappers",
    "Memory": "mage_envs.wrappers",
    "MemoryView": "mage_envs.wrappers",
    "MetaEpisode": "mage_envs.wrappers",
    "OpponentPool": "mage_envs.opponents",
    "Panel": "mage_envs.benchmarks",
    "Protocol": "mage_envs.wrappers",
    "Related": "mage_envs.related",
    "Request": "mage_envs.wrappers",
    "UnknownOpponent": "mage_envs.opponents",
    "evaluate": "mage_envs.benchmarks.runs.evaluation",
    "list_forms": "mage_envs.opponents",
    "list_memories": "mage_envs.wrappers",
    "list_opponents": "mage_envs.opponents",
    "list_panels": "mage_envs.benchmarks",
    "list_pools": "mage_envs.opponents",
    "make_opponent": "mage_envs.opponents",
    "opponent_info": "mage_envs.opponents",
    "panel": "mage_envs.benchmarks",
    "record": "mage_envs.benchmarks.loops.rows",
    "register_memory": "mage_envs.wrappers",
    "register_opponent": "mage_envs.opponents",
    "register_pool": "mage_envs.opponents",
    "register_related": "mage_envs.opponents.related",
    "results_of": "mage_envs.benchmarks.loops.columns",
    "rows": "mage_envs.benchmarks.loops.rows",
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
    "Frame",
    "FreeText",
    "Game",
    "GameRecord",
    "GameSettings",
    "GameSpec",
    "Generator",
    "Hand",
    "HandResult",
    "IllegalAction",
    "MatchResult",
    "Memory",
    "MemoryView",
    "Message",
    "MetaEpisode",
    "NotEnumerable",
    "ObservationWords",
    "OpponentFailure",
    "OpponentPool",
    "Panel",
    "Plain",
    "PlayView",
    "Policy",
    "Prompt",
    "PromptStyle",
    "Protocol",
    "ReflectView",
    "Related",
    "Reply",
    "Request",
    "State",
    "Task",
    "TextGameEnv",
    "Turn",
    "TurnRecord",
    "UnknownGame",
    "UnknownOpponent",
    "evaluate",
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
    "record",
    "register_game",
    "register_memory",
    "register_opponent",
    "register_pool",
    "register_record",
    "register_related",
    "results_of",
    "rows",
    "settings_of",
]

if "verifiers" in sys.modules:
    # `vf-eval mage-envs` imports the module `mage_envs`, and looks for these two in its public names.
    _ABOVE |= dict.fromkeys(("MageEnv", "MageTaskset"), "mage_envs.wrappers.adapters.verifiers")
    __all__ += ["MageEnv", "MageTaskset"]


def __getattr__(name: str) -> Any:
    """Return a name of the packages above."""
    if name in _ABOVE:
        # Not `vars`, because `benchmarks` loads its own names on first access too.
        return getattr(import_module(_ABOVE[name]), _RENAMED.get(name, name))
    raise AttributeError(f"module 'mage_envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_games()
# Plug-ins come last: a game of this package keeps its name if another package announces the same one.
load_records()
load_plugins()
