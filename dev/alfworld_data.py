"""Data sets of generated ALFWorld games in the official layout, which alfworld's own environment can play too."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from mage_envs.files.atomic import write_atomically
from mage_envs.games.alfworld.data import FOLDERS, RELEASE
from mage_envs.games.alfworld.index import GAME_FILE, TRAJECTORY_FILE
from mage_envs.games.alfworld.maker import LAMP, SPLITS, MadeGame, make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES, package_folder


def write_dataset(
    root: str | os.PathLike[str],
    *,
    size: str = "official-like",
    games_per_task: int = 10,
    splits: Sequence[str] = SPLITS,
    task_types: Sequence[str] = TASK_TYPES,
) -> int:
    """Write generated games in the official layout.

    Args:
        root: Folder of the new data set.
        size: Size of the games, one of `maker.SIZES`.
        games_per_task: Games to write of each split and task type, from the first one on.
        task_types: Task types to write.

    Returns:
        Number of written games.
    """
    count = 0
    for split in splits:
        for task_type in task_types:
            for index in range(games_per_task):
                game = make_game(split, size, task_type, index)
                folder = Path(root) / RELEASE / FOLDERS[split] / game_folder(game)
                write_atomically(folder / TRAJECTORY_FILE, json.dumps(trajectory(game), indent=1))
                write_atomically(folder / "initial_state.pddl", game.problem)
                # The game file is written last, because readers find a trial by it.
                write_atomically(folder / GAME_FILE, json.dumps(game.data()))
                count += 1
    # alfworld's configuration expects the domain and the grammar in the folder `logic` of the data.
    package = package_folder() / "data"
    for name in ("alfred.pddl", "alfred.twl2"):
        write_atomically(Path(root) / "logic" / name, (package / name).read_text("utf-8"))
    return count


def game_folder(game: MadeGame) -> str:
    """Return the two folders of the game's files below its split, with names in the official form."""
    target = f"{game.object_type}-None-{game.parent_type or LAMP}-{game.scene}"
    return f"{game.task_type}-{target}/trial_G{game.index:05d}"


def trajectory(game: MadeGame) -> dict[str, object]:
    """Return the content of a `traj_data.json` file, limited to the keys that text games read."""
    return {
        "task_type": game.task_type,
        "task_id": game_folder(game).rpartition("/")[2],
        "pddl_params": {
            "object_target": game.object_type,
            "parent_target": game.parent_type,
            "toggle_target": "" if game.parent_type else LAMP,
            "mrecep_target": "",
            "object_sliced": False,
        },
        "scene": {"scene_num": game.scene, "floor_plan": f"FloorPlan{game.scene}"},
        "turk_annotations": {"anns": []},
    }
