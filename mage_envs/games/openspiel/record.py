"""Records of OpenSpiel's games: five with ids and texts of their own, and the adapter for any other."""

from mage_envs.game_record import GameRecord

_CLASSES, _OPPONENTS = "mage_envs.games.openspiel.registered", "mage_envs.opponents.games"
RECORDS = (
    GameRecord(
        name="LeducPoker",
        entry_point=f"{_CLASSES}:LeducPoker",
        settings=f"{_CLASSES}:LEDUC",
        opponents={"leduc": f"{_OPPONENTS}.leduc"},
    ),
    GameRecord(
        name="ConnectFour",
        entry_point=f"{_CLASSES}:ConnectFour",
        panels={
            "connectfour-search": {
                "opponents": {"mcts:100": 1.0, "uniform": 1.0},
                "seats": (0, 1),
                "seed": 53,
                "about": "a game that no preset trains on",
            }
        },
    ),
    GameRecord(name="LiarsDice", entry_point=f"{_CLASSES}:LiarsDice", opponents={"liars": f"{_OPPONENTS}.liars_dice"}),
    GameRecord(
        name="Negotiation",
        entry_point=f"{_CLASSES}:Negotiation",
        settings=f"{_CLASSES}:NEGOTIATION",
        opponents={"negotiation": f"{_OPPONENTS}.negotiation"},
    ),
    GameRecord(name="Breakthrough", entry_point=f"{_CLASSES}:Breakthrough"),
    GameRecord(
        name="OpenSpiel",
        entry_point="mage_envs.games.openspiel.openspiel_game:OpenSpiel",
        finder="mage_envs.spiel.loading:options_of",
        belongings=(
            "mage_envs/games/openspiel",
            "opponents/games/leduc.py",
            "opponents/games/liars_dice.py",
            "opponents/games/negotiation.py",
            "tests/games/openspiel",
        ),
    ),
)
