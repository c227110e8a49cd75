"""Records of Sokoban, and of its rooms with hidden keys."""

import os
from collections.abc import Iterator
from pathlib import Path

from mage_envs.game_record import GameRecord
from mage_envs.loading.extras import version_or

BOXOBAN = "BOXOBAN_LEVELS"


def rows() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each finding."""
    brings = 'not installed; pip install "mage-envs[gym-sokoban]" brings its generator'
    yield "gym-sokoban", version_or("gym-sokoban", brings)
    path = os.environ.get(BOXOBAN)
    if not path:
        yield "Boxoban levels", f"none: {BOXOBAN} is not set (Sokoban makes its own rooms)"
        return
    folder = Path(path)
    count = sum(1 for _ in folder.rglob("*.txt")) if folder.is_dir() else 0
    yield "Boxoban levels", f"{BOXOBAN}={path}, " + (f"{count} level files" if count else "which holds no level file")


CONTROLS = GameRecord(
    name="SokobanControls",
    entry_point="mage_envs.games.sokoban.controls:SokobanControls",
    settings="mage_envs.games.sokoban.controls:SETTINGS",
    opponents={"controls": "mage_envs.opponents.games.sokoban_controls"},
    presets={"controls": ({"max_rollouts": 300}, {"split": "train"})},
)


def _panel(boxes: int, seed: int, about: str) -> dict[str, object]:
    noun = "box" if boxes == 1 else "boxes"
    return {"seed": seed, "about": f"{boxes} {noun}{about}", "env_kwargs": {"boxes": boxes}}


SOKOBAN = GameRecord(
    name="Sokoban",
    entry_point="mage_envs.games.sokoban.game:Sokoban",
    settings="mage_envs.games.sokoban.game:SETTINGS",
    opponents={"sokoban": "mage_envs.opponents.games.sokoban"},
    presets={"sokoban": ({"max_rollouts": 300}, {"max_turns": 7, "boxes": 2, "size": 6})},
    small_models={
        "sokoban": {
            "env_kwargs": {"boxes": 1, "min_moves": 2, "max_moves": 8, "max_turns": 11},
            "imitate": ["policy:sokoban/expert:1"],
            "learning_rate": 2e-4,
        }
    },
    panels={
        "sokoban-train": _panel(2, 7, ", as in training"),
        "sokoban-eval-2box": _panel(2, 8, ": in distribution"),
        "sokoban-eval-1box": _panel(1, 9, ": out of distribution"),
        "sokoban-eval-3box": _panel(3, 10, ": out of distribution"),
    },
    doctor="mage_envs.games.sokoban.record:rows",
    belongings=(
        "mage_envs/games/sokoban",
        "opponents/games/sokoban*.py",
        "opponents/solo/sokoban.py",
        "opponents/solo/key_*.py",
        "opponents/solo/wirings.py",
        "tests/games/sokoban",
        "tests/games/related/test_sokoban_controls.py",
    ),
)
RECORDS = (CONTROLS, SOKOBAN)
