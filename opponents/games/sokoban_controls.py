"""Hidden facts of SokobanControls, the wirings of four keys, and players that measure the value of knowing them."""

from __future__ import annotations

from mage_envs.games.sokoban.controls import WIRINGS
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.related import register_facts

register_facts(
    "SokobanControls",
    "controls",
    dict.fromkeys(WIRINGS, 1.0),
    about="rooms of the half that no training plays, under every wiring of the keys",
    options={"split": "eval"},
)
for _class in ("Blind", "MemoryPlayer", "Explorer", "Known", "Wrong"):
    register_opponent(
        f"controls/{_class.removesuffix('Player').lower()}",
        entry_point=f"mage_envs.opponents.solo.key_players:{_class}",
        games=("SokobanControls",),
    )
register_opponent(
    "controls/bayes",
    entry_point="mage_envs.opponents.solo.key_players:Bayes",
    games=("SokobanControls",),
    needs_game=True,
)
