"""ALFWorld: rules and text (`game`), sources of games (`data`, `maker`, `plan`) and the engine (`engine`)."""

from mage_envs.games.alfworld.data import GameFiles, MadeGames, NoGames
from mage_envs.games.alfworld.errors import GameFileError
from mage_envs.games.alfworld.game import SETTINGS, ALFWorld, ALFWorldState
from mage_envs.games.alfworld.maker import MadeGame, make_game, task_ids
from mage_envs.games.alfworld.plan import NoPlan, shortest_plan

__all__ = [
    "SETTINGS",
    "ALFWorld",
    "ALFWorldState",
    "GameFileError",
    "GameFiles",
    "MadeGame",
    "MadeGames",
    "NoGames",
    "NoPlan",
    "make_game",
    "shortest_plan",
    "task_ids",
]
