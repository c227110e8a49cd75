"""Data sets in the official layout: written, listed, filtered and cached; and real official games if available.

Set ALFWORLD_DATA to the folder that alfworld-download filled to run the last tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from dev.alfworld_data import game_folder, write_dataset
from mage_envs.files.cache import cache_root
from mage_envs.games.alfworld import index as index_module
from mage_envs.games.alfworld.data import FOLDERS, GameFiles, NoGames, data_root
from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.errors import GameFileError
from mage_envs.games.alfworld.game import ALFWorld
from mage_envs.games.alfworld.index import read_index
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.plan import shortest_plan
from mage_envs.games.alfworld.scenes import TASK_TYPES

HERE = "ALFWORLD_DATA" in os.environ
OFFICIAL = os.environ.get("ALFWORLD_DATA", "")
"""Read when the tests are collected, because an import of alfworld sets the variable."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("data set")
    assert write_dataset(root, size="tiny", games_per_task=2) == 36
    return root


@pytest.fixture
def root(dataset, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(dataset, tmp_path / "copy")


def files(root, split="train"):
    """As the next process would see them."""
    index_module._entries.cache_clear()
    return GameFiles(split, TASK_TYPES, root)


def test_layout_and_order(root):
    games = files(root)
    ids = [games.task_id(index) for index in range(len(games))]
    assert ids == sorted(ids)
    assert len(ids) == 12
    for game_id in ids:
        folder = root / "json_2.1.1" / "train" / game_id
        assert sorted(path.name for path in folder.iterdir()) == [
            "game.tw-pddl",
            "initial_state.pddl",
            "traj_data.json",
        ]
        assert games.load(game_id) == folder / "game.tw-pddl"
        assert game_id.split("-")[0] == games.category(game_id)
    assert {path.name for path in (root / "logic").iterdir()} == {"alfred.pddl", "alfred.twl2"}
    assert len(files(root, "eval_out_of_distribution")) == 12
    assert len(GameFiles("train", ("look_at_obj_in_light",), root)) == 2


def test_a_written_game_is_the_made_one(root):
    game = make_game("train", "tiny", "pick_and_place_simple", 1)
    path = root / "json_2.1.1" / "train" / game_folder(game) / "game.tw-pddl"
    assert json.loads(path.read_text()) == game.data()
    assert len(files(root).plan(game_folder(game))) == len(game.walkthrough)


def test_writing_again_changes_nothing(root):
    path = next((root / "json_2.1.1").rglob("game.tw-pddl"))
    content_before = path.read_bytes()
    write_dataset(root, size="tiny", games_per_task=1, splits=("train",))
    assert path.read_bytes() == content_before
    assert not [path for path in root.rglob(".*") if path.is_file()]


def test_a_root_whose_path_looks_filtered(dataset, tmp_path):
    """alfworld's own filter looks at the whole path and would hide every game."""
    assert len(files(shutil.copytree(dataset, tmp_path / "movable" / "Sliced"))) == 12


def test_the_folder_of_splits_will_do(dataset):
    assert len(files(dataset / "json_2.1.1")) == 12


def spoil(root, number, change):
    games = files(root)
    folder = root / "json_2.1.1" / "train" / games.task_id(number)
    change(folder)
    return games.task_id(number)


def rewrite(name, **fields):
    def change(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change


def slice_task(folder):
    folder.parent.rename(folder.parent.with_name(folder.parent.name.replace("-None-", "Sliced-None-")))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (rewrite("game.tw-pddl", solvable=False), "unsolvable or not known to be solvable"),
        (rewrite("game.tw-pddl", solvable=None), "unsolvable or not known to be solvable"),
        (rewrite("traj_data.json", task_type="pick_and_place_with_movable_recep"), "of an unsupported task type"),
        (lambda folder: (folder / "game.tw-pddl").write_text("{"), "unreadable"),
        (lambda folder: (folder / "game.tw-pddl").write_text("[]"), "unreadable"),
        (lambda folder: (folder / "game.tw-pddl").write_bytes(b"\xff\xfe"), "unreadable"),
        (lambda folder: (folder / "traj_data.json").unlink(), "without traj_data.json"),
        (slice_task, "with sliced objects"),
    ],
)
def test_what_is_left_out(root, change, problem):
    spoil(root, 3, change)
    index_module._entries.cache_clear()
    entries = read_index(root / "json_2.1.1" / "train")
    assert [entry.problem for entry in entries if not entry.playable] == [problem]
    assert len(files(root)) == 11


def test_a_folder_without_its_game_is_not_a_game(root):
    spoil(root, 0, lambda folder: (folder / "game.tw-pddl").unlink())
    assert len(files(root)) == 11


def test_nothing_to_play_is_an_error_that_says_what_there_is(root):
    for _ in range(11):
        spoil(root, 0, rewrite("game.tw-pddl", solvable=False))
    index_module._entries.cache_clear()
    with pytest.raises(
        NoGames, match=r"has no game of the task types look_at_obj_in_light: 1 pick_two_obj_and_place, 11"
    ):
        GameFiles("train", ("look_at_obj_in_light",), root)
    shutil.rmtree(root / "json_2.1.1" / "train")
    with pytest.raises(NoGames, match=r"There is no folder .*json_2\.1\.1.train\. Set ALFWORLD_DATA"):
        files(root)
    (root / "json_2.1.1" / "train").mkdir()
    with pytest.raises(NoGames, match=r"has no game of .*: it contains no game\.tw-pddl"):
        files(root)


def test_the_index_is_kept_and_renewed(root, monkeypatch):
    folder = root / "json_2.1.1" / "train"
    first_entries = read_index(folder)
    read = []
    examined = index_module._examine
    monkeypatch.setattr(
        index_module, "_examine", lambda *arguments: (read.append(arguments[1]), examined(*arguments))[1]
    )
    index_module._entries.cache_clear()
    assert read_index(folder) == first_entries
    assert read == []
    changed = spoil(root, 5, rewrite("game.tw-pddl", solvable=False))
    read.clear()
    index_module._entries.cache_clear()
    assert [entry.id for entry in read_index(folder) if not entry.playable] == [changed]
    assert read == [changed]
    index_files = [path for path in (cache_root() / "alfworld").glob("index-*.json") if str(folder) in path.read_text()]
    assert len(index_files) == 1
    for damage in (
        "",
        "[]",
        '{"version": 1, "trials": {"x": 1}}',
        '{"version": 1, "trials": 3}',
        index_files[0].read_text()[:900],
    ):
        index_files[0].write_text(damage)
        index_module._entries.cache_clear()
        assert [entry.id for entry in read_index(folder) if not entry.playable] == [changed]
    assert json.loads(index_files[0].read_text())["version"] == 1


def test_a_cache_that_cannot_be_written_is_no_error(root, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "file"))
    assert len(read_index(root / "json_2.1.1" / "train")) == 12


def test_the_variable_names_the_data(root, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(root))
    game = ALFWorld(data="official", task_types="look_at_obj_in_light")
    assert game.initial_state(np.random.default_rng(0)).task_id.startswith("look_at_obj_in_light-")
    for value in (None, ""):
        monkeypatch.setenv("ALFWORLD_DATA", value) if value is not None else monkeypatch.delenv("ALFWORLD_DATA")
        assert data_root() is None
        with pytest.raises(NoGames, match='data="official" requires the environment variable ALFWORLD_DATA'):
            ALFWorld(data="official")


def test_unknown_ids(root):
    games = files(root)
    with pytest.raises(ValueError, match=f"has no task .*Did you mean '{games.task_id(2)}'"):
        games.check(games.task_id(2) + "x")
    with pytest.raises(ValueError, match="Ids look like 'look_at_obj"):
        games.check("?" * 5000)


def test_a_bad_game_file_says_so_and_the_next_one_plays(root):
    bad = spoil(root, 2, rewrite("game.tw-pddl", pddl_problem="(define (problem"))
    good = files(root).task_id(0)
    env = gym.make("mage/ALFWorld-v0", data=str(root))
    with pytest.raises(GameFileError, match="game.tw-pddl is not a playable ALFWorld game"):
        env.reset(seed=0, options={"task": bad})
    text, info = env.reset(seed=0, options={"task": good})
    assert "Your task is to" in text
    assert info["private"]["task"] == good


def test_a_game_that_is_won_at_its_start_is_refused(root):
    game = make_game("train", "tiny", "pick_and_place_simple", 0)
    goal = f"(exists (?o - object) (objectType ?o {game.object_type}Type))"
    problem = game.problem.partition("(:goal")[0] + f"(:goal (and {goal})))"
    spoil(root, 0, rewrite("game.tw-pddl", pddl_problem=problem))
    with pytest.raises(GameFileError):
        ALFWorld(data=root).task_state(files(root).task_id(0), np.random.default_rng(0))


STOCK = """
import json, sys
from pathlib import Path
from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv
root = Path(sys.argv[1])
split = {"data_path": "train", "eval_id_data_path": "valid_seen", "eval_ood_data_path": "valid_unseen"}
config = {
    "dataset": {key: str(root / "json_2.1.1" / name) for key, name in split.items()}
    | {"num_train_games": -1, "num_eval_games": -1},
    "logic": {"domain": str(root / "logic/alfred.pddl"), "grammar": str(root / "logic/alfred.twl2")},
    "env": {"goal_desc_human_anns_prob": 0, "task_types": [1, 2, 3, 4, 5, 6], "domain_randomization": False,
            "expert_type": "handcoded"},
    "general": {"training_method": "dqn"},
    "rl": {"training": {"max_nb_steps_per_episode": 50}},
}
env = AlfredTWEnv(config, train_eval="eval_out_of_distribution")
assert env.num_games == 6, env.num_games
env = env.init_env(batch_size=1)
for _ in range(6):
    _, infos = env.reset()
    path = infos["extra.gamefile"][0]
    won = False
    for command in json.loads(Path(path).read_text())["walkthrough"]:
        assert not won and command in infos["admissible_commands"][0], command
        _, _, _, infos = env.step([command])
        won = infos["won"][0]
    print("won" if won else "lost", Path(path).parent.parent.name.split("-")[0])
"""


def test_alfworlds_own_environment_loads_and_wins_them(tmp_path):
    write_dataset(tmp_path, size="tiny", games_per_task=1, splits=("eval_out_of_distribution",))
    environment = {**os.environ, "ALFWORLD_DATA": str(tmp_path)}
    printed = subprocess.run(
        [sys.executable, "-c", STOCK, str(tmp_path)], capture_output=True, text=True, check=True, env=environment
    ).stdout
    won = [line for line in printed.splitlines() if line.startswith(("won", "lost"))]
    assert sorted(won) == sorted(f"won {task_type}" for task_type in TASK_TYPES)


# -- official games ---------------------------------------------------------------------------------------------

official = pytest.mark.skipif(not HERE, reason="ALFWORLD_DATA does not name the official data")


def official_games():
    """Some games of each split, as (task id, path)."""
    for split in FOLDERS:
        try:
            games = GameFiles(split, TASK_TYPES, OFFICIAL)
        except NoGames:
            continue
        step = max(len(games) // 12, 1)
        for number in range(0, len(games), step):
            yield games.task_id(number), games.load(games.task_id(number))


@official
def test_constructed_plans_win_official_games():
    lost, num_played = [], 0
    for task_id, path in official_games():
        content = json.loads(Path(path).read_text())
        engine = FastEngine()
        engine.load(path)
        state = engine.reset()
        for command in shortest_plan(content["pddl_problem"], content["grammar"]):
            state = engine.step(command)
        num_played += 1
        if not state.won:
            lost.append(task_id)
    assert num_played
    assert len(lost) <= num_played / 18, lost
