"""Reference players of ALFWorld."""

from mage_envs.opponents.registry import register_opponent

_PLAYERS, _GAMES = "mage_envs.opponents.solo.alfworld", ("ALFWorld",)

register_opponent("alfworld/expert", entry_point=f"{_PLAYERS}:ALFWorldExpert", games=_GAMES)
register_opponent("alfworld/oracle", entry_point=f"{_PLAYERS}:ALFWorldOracle", games=_GAMES, needs_game=True)
register_opponent("alfworld/expert-without-memory", entry_point=f"{_PLAYERS}:expert_without_memory", games=_GAMES)
