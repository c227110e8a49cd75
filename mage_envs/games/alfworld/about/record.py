"""Records of ALFWorld, and of its houses."""

from mage_envs.game_record import GameRecord

HOUSE = GameRecord(
    name="ALFWorldHouse",
    entry_point="mage_envs.games.alfworld_house:ALFWorldHouse",
    settings="mage_envs.games.alfworld_house:SETTINGS",
    opponents={"house": "mage_envs.opponents.games.alfworld_house"},
    presets={"house": ({"groups_per_rollout": 8, "max_completion_length": 1024, "opponents": "pool:house/train"}, {})},
)
_GENERATED = "generated {} games; there are 144, none with a known plan longer than 10 commands"
_OFFICIAL = "the official {} games, from the folder that ALFWORLD_DATA names"


def _panel(split: str, seed: int, data: str, about: str) -> dict[str, object]:
    options = {"split": split, "data": data}
    return {
        "seed": seed,
        "about": about,
        "env_kwargs": options,
        "ids": "mage_envs.games.alfworld.about.panel_ids:task_ids",
    }


ALFWORLD = GameRecord(
    name="ALFWorld",
    entry_point="mage_envs.games.alfworld.game:ALFWorld",
    settings="mage_envs.games.alfworld.game:SETTINGS",
    opponents={"alfworld": "mage_envs.opponents.games.alfworld"},
    # The limit of turns is that of the game's settings for each protocol: 30 under adaptive, 10 under paper.
    presets={"alfworld": ({"groups_per_rollout": 8, "max_completion_length": 1024}, {"split": "train"})},
    small_models={
        "alfworld": {
            "model_name_or_path": "words:hidden=128,layers=3",
            # The paper's limit of turns, with which memory is worth most.
            "env_kwargs": {"split": "train", "max_turns": 10},
            "imitate": ["policy:alfworld/expert"],
            "imitate_steps": 1200,
            "imitate_episodes": 1500,
            "imitate_rows": 8,
            "imitate_rate": 2e-3,
            "max_completion_length": 16,
            "groups_per_rollout": 4,
            "max_rollouts": 1,
            "learning_rate": 1e-5,
        }
    },
    panels={
        "alfworld-eval-in": _panel("eval_in_distribution", 11, "generated", _GENERATED.format("in-distribution")),
        "alfworld-eval-out": _panel("eval_out_of_distribution", 12, "generated", _GENERATED.format("unseen-room")),
        "alfworld-official-in": _panel("eval_in_distribution", 55, "official", _OFFICIAL.format("valid_seen")),
        "alfworld-official-out": _panel("eval_out_of_distribution", 56, "official", _OFFICIAL.format("valid_unseen")),
    },
    doctor="mage_envs.games.alfworld.about.doctor:rows",
    page="alfworld.md",
    belongings=(
        "mage_envs/games/alfworld*",
        "opponents/games/alfworld*.py",
        "opponents/solo/alfworld.py",
        "opponents/solo/house_players.py",
        "tests/games/alfworld",
        "tests/games/related/test_house.py",
    ),
)
RECORDS = (HOUSE, ALFWORLD)
