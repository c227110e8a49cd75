"""Level files: what is read, what is refused and how, and Boxoban's own files where BOXOBAN_LEVELS names them."""

from __future__ import annotations

import os
import re

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs.games.sokoban import Sokoban, load_levels
from mage_envs.games.sokoban.boxoban import LevelFileError
from tests.games.sokoban.forward import board_text

GOOD = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#+$ *#\n#    #\n######\n"


def test_a_file_and_a_folder(tmp_path):
    (tmp_path / "b.txt").write_text(GOOD)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "000.txt").write_text("; 12\r\n#####\r\n#.$@#\r\n#####\r\n")
    first, second = load_levels(tmp_path / "b.txt")
    assert board_text(first) == "Row 1: # # # # #\nRow 2: # P X O #\nRow 3: # # # # #"
    assert (second.width, second.height, second.boxes.bit_count()) == (6, 4, 2)
    assert [board_text(level) for level in load_levels(tmp_path)][1:] == [board_text(first), board_text(second)]


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "levels.txt"
    path.write_text(GOOD)
    assert len(load_levels(path)) == 2
    path.write_text("; 0\n#####\n#@$.#\n#####\n")
    os.utime(path, ns=(1, 1))
    assert len(load_levels(path)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file has no level."),
        ("#####\n#@$.#\n#####\n", "line 1: a level must begin with a line '; N', got '#####'."),
        ("; one\n#####\n#@$.#\n#####\n", "line 1: a level must begin with a line '; N', got '; one'."),
        ("; 0\n; 1\n#####\n", "line 1: the level has no rows."),
        ("; 0\n#####\n#@$.#\n####\n", "line 1: in the level below, the rows must be equally long, got 5, 5, 4."),
        (
            GOOD + "\n; 2\n#####\n#@x.#\n#####\n",
            "line 12: in the level below, row 2 has the unknown character 'x' in column 3.",
        ),
        ("; 0\n#####\n#@$. \n#####\n", "line 1: in the level below, the border is open; surround the level with '#'."),
        ("; 0\n#####\n# $.#\n#####\n", "line 1: in the level below, expected 1 player, got 0."),
        ("; 0\n######\n#@$.@#\n######\n", "line 1: in the level below, expected 1 player, got 2."),
        (
            "; 0\n######\n#@$..#\n######\n",
            "line 1: in the level below, expected at least one box and as many targets, got 1 boxes and 2 targets.",
        ),
    ],
)
def test_malformed_files(tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(LevelFileError, match=re.escape(f"{path}, {message}")) as caught:
        load_levels(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_level_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="Level file .* not found"):
        load_levels(tmp_path / "none.txt")
    with pytest.raises(FileNotFoundError, match="has no level files"):
        load_levels(tmp_path)
    (tmp_path / "picture.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LevelFileError, match="not a text file"):
        load_levels(tmp_path)


def test_levels_are_drawn_by_the_seed(tmp_path):
    (tmp_path / "levels.txt").write_text(GOOD)
    env = gym.make("mage/Sokoban-v0", generator=str(tmp_path))
    boards = [env.reset(seed=seed)[0] for seed in range(20)]
    assert boards == [env.reset(seed=seed)[0] for seed in range(20)]
    assert len(set(boards)) == 2


@pytest.mark.skipif("BOXOBAN_LEVELS" not in os.environ, reason="BOXOBAN_LEVELS names no folder of Boxoban's files")
def test_boxobans_own_files():
    levels = load_levels(os.environ["BOXOBAN_LEVELS"])
    assert len(levels) >= 1000
    assert {(level.width, level.height, level.boxes.bit_count()) for level in levels} == {(10, 10, 4)}
    text = Sokoban(os.environ["BOXOBAN_LEVELS"]).initial_state(np.random.default_rng(0)).observation(0)
    assert text.count("X") + text.count("√") == 4
