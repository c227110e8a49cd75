"""Level files: valid files, refused files with their errors, and Boxoban's own files if BOXOBAN_LEVELS names them."""

from __future__ import annotations

import os
import re

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs.games.sokoban import boxoban
from mage_envs.games.sokoban.boxoban import LevelFileError, load_levels, read_levels
from mage_envs.games.sokoban.game import Sokoban
from mage_envs.games.sokoban.level import MOVES
from mage_envs.opponents import make_opponent
from tests.games.sokoban.forward import board_text

GOOD = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#+$ *#\n#    #\n######\n"


def test_a_file_and_a_folder(tmp_path):
    (tmp_path / "b.txt").write_text(GOOD)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "000.txt").write_text("; 12\r\n#####\r\n#.$@#\r\n#####\r\n")
    first_level, second_level = load_levels(tmp_path / "b.txt")
    assert board_text(first_level) == "Row 1: # # # # #\nRow 2: # P X O #\nRow 3: # # # # #"
    assert (second_level.width, second_level.height, second_level.boxes.bit_count()) == (6, 4, 2)
    assert [board_text(level) for level in load_levels(tmp_path)][1:] == [
        board_text(first_level),
        board_text(second_level),
    ]


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
        ("Only words.\n", "line 1: the file has no level."),
        ("; 0\n; 1\n#####\n", "line 1: the level has no rows."),
        ("; 0\n#####\n#@$.#\n### \n", "line 2: the border is open; surround the level with '#'."),
        ("; 2\n#####\n#@x.#\n#####\n", "line 2: row 2 has the unknown character 'x' in column 3."),
        ("; 0\n#####\n#@$. \n#####\n", "line 2: the border is open; surround the level with '#'."),
        ("; 0\n#####\n# $.#\n#####\n", "line 2: expected 1 player, got 0."),
        ("; 0\n######\n#@$.@#\n######\n", "line 2: expected 1 player, got 2."),
        (
            "; 0\n######\n#@$..#\n######\n",
            "line 2: expected at least one box and as many targets, got 1 boxes and 2 targets.",
        ),
        ("#####\n#@ *#\n#####\n", "line 1: it is solved at the start."),
        ("#####\n#@.$#\n#####\n", "line 1: it has no solution."),
        ("999999999#@$.\n", "line 1: the level has "),
        ("#####\n#@$.#\n#####\n\n#####\n#@ *#\n#####\n".replace("$", " "), "line 1: expected at least one box"),
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
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\x00")
    os.utime(tmp_path / "picture.txt", ns=(1, 1))
    with pytest.raises(LevelFileError, match="it has the byte 0"):
        load_levels(tmp_path)


BASE = "#####\n#@$.#\n#   #\n#####\n"
MICROBAN = "####\n# .#\n#  ###\n#*@  #\n#  $ #\n#  ###\n####\n"
ENCODED = "5#\n#@$.#\n#3-#\n5#\n"
FORMS = {
    "plain": "; 0\n" + BASE,
    "no header": BASE,
    "byte order mark": "\ufeff; 0\n" + BASE,
    "title in the header": "; 1 'Duh!'\n" + BASE,
    "title as a plain line": "Level 1\n" + BASE,
    "title with a number sign": "#1\n" + BASE,
    "title behind": BASE + "Title: First\nAuthor: D. W. Skinner\n",
    "number behind": BASE + "; 1\n",
    "title between header and rows": "; 1\n\nFirst\n\n" + BASE,
    "comment": "Comment:\n# A wall is #.\n##\n#\nComment-End:\n" + BASE,
    "comment of one line": "Comment: easy\n" + BASE,
    "comment without end": "Comment:\n" + BASE,
    "comment sign": ":: a file of levels\n\n; a comment\n" + BASE,
    "decoration": "##########\n\n" + BASE + "\n##########\n",
    "CRLF": BASE.replace("\n", "\r\n"),
    "CR": "; 0\r" + BASE.replace("\n", "\r"),
    "no line end": BASE.rstrip(),
    "trailing blanks": BASE.replace("\n", " \n"),
    "trailing tabs": BASE.replace("\n", "\t\n"),
    "indented": "".join(f"    {line}\n" for line in BASE.splitlines()),
    "indented by tabs": "".join(f"\t{line}\n" for line in BASE.splitlines()),
    "tab as floor": "########\n#@$.#\t#\n#\t#\n########\n".replace("#@$.#\t#", "#@$.   #").replace("#\t#", "#      #"),
    "floor as -": BASE.replace(" ", "-"),
    "floor as _": BASE.replace(" ", "_"),
    "no-break blanks": BASE.replace(" ", "\u00a0"),
    "letters": BASE.replace("@", "p").replace("$", "b"),
    "letters on targets": "#####\n#pbo#\n#   #\n#####\n",
    "run lengths": ENCODED,
    "run lengths in one line": ENCODED.replace("\n", "|"),
    "run lengths with groups": "5#|#@$.#|#3(-)#|5#",
    "solution behind": BASE + "Solution: R\n",
    "Latin-1": "Auteur: Fran\u00e7ois\n" + BASE,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_one_level(tmp_path, form):
    path = tmp_path / "levels.txt"
    path.write_bytes(FORMS[form].encode("latin-1" if form == "Latin-1" else "utf-8"))
    levels, dropped, _ = read_levels(path)
    assert not dropped
    if form != "tab as floor":
        assert [board_text(level) for level in levels] == [
            "Row 1: # # # # #\nRow 2: # P X O #\nRow 3: # _ _ _ #\nRow 4: # # # # #"
        ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_encodings_with_a_byte_order_mark(tmp_path, encoding):
    (tmp_path / "levels.xsb").write_text(BASE, encoding)
    assert len(load_levels(tmp_path)) == 1


def test_ragged_rows_get_walls_outside(tmp_path):
    (tmp_path / "microban.txt").write_text("; 1\n\n" + MICROBAN)
    (level,) = load_levels(tmp_path)
    assert board_text(level).splitlines() == [
        "Row 1: # # # # # #",
        "Row 2: # _ O # # #",
        "Row 3: # _ _ # # #",
        "Row 4: # √ P _ _ #",
        "Row 5: # _ _ X _ #",
        "Row 6: # _ _ # # #",
        "Row 7: # # # # # #",
    ]


def test_a_blank_row_ends_a_level(tmp_path, caplog):
    (tmp_path / "levels.txt").write_text(BASE + "\n" + BASE.replace("#   #", "\n#   #"))
    levels, dropped, _ = read_levels(tmp_path)
    assert len(levels) == 1
    assert [(level.line, level.reason) for level in dropped] == [(6, "the border is open; surround the level with '#'")]


def test_dropped_levels_are_counted(tmp_path, caplog):
    stuck, solved = "#####\n#@.$#\n#####\n", "#####\n#@ *#\n#####\n"
    (tmp_path / "levels.txt").write_text("\n".join([BASE, solved, stuck, solved, MICROBAN]))
    read = read_levels(tmp_path / "levels.txt")
    assert read.summary() == (
        "5 levels read, 3 dropped (2: it is solved at the start; 1: it has no solution; the first is in "
        f"{tmp_path / 'levels.txt'}, line 6)."
    )
    assert read.summary() in caplog.text
    boards = {Sokoban(tmp_path).initial_state(np.random.default_rng(seed)).observation(0) for seed in range(30)}
    assert boards == {board_text(level) for level in read.levels}
    assert len(boards) == 2


def test_run_lengths_cannot_fill_the_memory(tmp_path):
    (tmp_path / "levels.txt").write_text("99999#" * 200_000 + "\n" + "((99(99(99(99#)))))" * 50 + "\n\n" + BASE)
    assert len(load_levels(tmp_path)) == 1


def test_tabs_with_several_readings_are_refused(tmp_path):
    (tmp_path / "levels.txt").write_text("#########\n#@\t$ . #\n#########\n#\n")
    with pytest.raises(LevelFileError, match="line 1: "):
        load_levels(tmp_path)


def test_a_level_that_is_solved_later_is_replaced_if_it_has_no_solution(tmp_path, monkeypatch):
    monkeypatch.setattr(boxoban, "SEARCH_BUDGET", 0)
    (tmp_path / "levels.txt").write_text("#####\n#@.$#\n#####\n\n" + BASE)
    read = read_levels(tmp_path)
    assert (len(read.levels), read.unsolved) == (2, 2)
    assert "2 not solved yet" in read.summary()
    game = Sokoban(tmp_path)
    boards = {game.initial_state(np.random.default_rng(seed)).observation(0) for seed in range(20)}
    assert boards == {board_text(read.levels[1])}


@pytest.mark.parametrize(
    "options",
    [{"min_moves": 22, "max_moves": 30}, {"max_moves": 5}, {"boxes": 1, "size": 8, "min_moves": 22, "max_moves": 24}],
)
def test_the_limit_follows_from_the_longest_solution(options):
    env = gym.make("mage/Sokoban-v0", **options)
    for seed in range(4):
        assert is_solved(env, seed)
    assert env.unwrapped.max_turns == max(7, -(-options["max_moves"] // 3))


def is_solved(env, seed):
    """Return True if a perfect player solves the room of a seed. Check the return against the facts."""
    _, info = env.reset(seed=seed)
    policy, terminated, total, limit = (
        make_opponent("sokoban/expert", env.unwrapped.game),
        False,
        0.0,
        info["max_steps"],
    )
    policy.reset(np.random.default_rng(0))
    while not terminated:
        _, reward, terminated, _, info = env.step(policy.act(env.unwrapped.hand.turn(0)))
        total += reward
        limit -= 1
    assert limit >= 0
    spec = env.unwrapped.game_spec
    assert spec.min_return <= total <= spec.max_return
    return info["success"]


def test_a_level_of_a_file_has_a_limit_of_its_own(tmp_path):
    corridor = f"#{'#' * 42}#\n#@$ {' ' * 37} .#\n#{'#' * 42}#\n".replace("  .#", " .#")
    (tmp_path / "levels.txt").write_text(BASE + "\n" + corridor)
    env = gym.make("mage/Sokoban-v0", generator=str(tmp_path))
    limits = {env.reset(seed=seed)[1]["max_steps"] for seed in range(20)}
    assert len(limits) == 2
    assert min(limits) == 7 < max(limits) < env.unwrapped.max_turns
    assert all(is_solved(env, seed) for seed in range(10))
    meta = gym.make("mage/Sokoban-Meta-v0", generator=str(tmp_path))
    prompts = {meta.reset(seed=seed)[0].partition("at most ")[2].partition(" ")[0] for seed in range(20)}
    assert prompts == {str(limit) for limit in limits}


def test_returns_stay_within_the_facts_for_every_limit(tmp_path):
    (tmp_path / "levels.txt").write_text("#######\n#     #\n#@ $*.#\n#     #\n# *   #\n#     #\n#######\n")
    for options in ({}, {"generator": str(tmp_path)}, {"max_moves": 40}):
        for limit in (None, 1, 60):
            env = gym.make("mage/Sokoban-v0", max_turns=limit, **options)
            env.reset(seed=0)
            terminated, total, moves = False, 0.0, np.random.default_rng(1)
            while not terminated:
                move = ", ".join(MOVES[int(number)] for number in moves.integers(4, size=3))
                _, reward, terminated, _, _ = env.step(move)
                total += reward
            spec = env.unwrapped.game_spec
            assert spec.min_return <= total <= spec.max_return, (options, limit)


def test_levels_are_drawn_by_the_seed(tmp_path):
    (tmp_path / "levels.txt").write_text(GOOD)
    env = gym.make("mage/Sokoban-v0", generator=str(tmp_path))
    boards = [env.reset(seed=seed)[0] for seed in range(20)]
    assert boards == [env.reset(seed=seed)[0] for seed in range(20)]
    assert len(set(boards)) == 2


@pytest.mark.skipif("BOXOBAN_LEVELS" not in os.environ, reason="BOXOBAN_LEVELS names no folder of Boxoban's files")
def test_boxobans_own_files():
    levels = load_levels(os.environ["BOXOBAN_LEVELS"])
    assert len(levels) >= 900
    assert {(level.width, level.height, level.boxes.bit_count()) for level in levels} == {(10, 10, 4)}
    text = Sokoban(os.environ["BOXOBAN_LEVELS"]).initial_state(np.random.default_rng(0)).observation(0)
    assert text.count("X") + text.count("√") == 4
    env = gym.make("mage/Sokoban-v0", generator=os.environ["BOXOBAN_LEVELS"])
    assert all(is_solved(env, seed) for seed in range(12))
