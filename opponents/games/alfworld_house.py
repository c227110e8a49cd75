"""Hidden facts of ALFWorldHouse, the houses, and players that measure the value of knowing them."""

from __future__ import annotations

from mage_envs.games.alfworld.houses import FACTS
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.related import register_facts

register_facts(
    "ALFWorldHouse",
    "house",
    {house: 1.0 for houses in FACTS.values() for house in houses},
    held_out=dict.fromkeys(FACTS["eval"], 1.0),
    about="tasks in houses that no training meets",
)
for _name, _entry in (("blind", "expert_without_memory"), ("memory", "ALFWorldExpert")):
    register_opponent(
        f"house/{_name}", entry_point=f"mage_envs.opponents.solo.alfworld:{_entry}", games=("ALFWorldHouse",)
    )
for _name, _class in (("known", "KnownHouse"), ("wrong", "WrongHouse"), ("plan", "PlannedHouse")):
    _entry = f"mage_envs.opponents.solo.house_players:{_class}"
    register_opponent(f"house/{_name}", entry_point=_entry, games=("ALFWorldHouse",), needs_game=True)
