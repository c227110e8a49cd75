"""Sokoban in a real pseudo-terminal and in tmux: short spellings, arrow keys, undo, restart and new."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import termios
import time

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.cli.keyboard import expand_abbreviations
from mage_envs.games.sokoban.level import MOVES
from tests.mage_envs.cli.terminal import ROOT

SOKOBAN = ("play", "mage/Sokoban-v0", "--seed", "4")
CODES = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1bOD"}
"""Escape codes of the arrow keys. Some terminals send O for [."""


@pytest.fixture
def level():
    env = gym.make("mage/Sokoban-v0", max_turns=100)
    env.reset(seed=4)
    return env


def board(env: gym.Env[str, str]) -> str:
    return env.unwrapped.hand.state.observation(0)


def solution(env: gym.Env[str, str]) -> list[str]:
    room = env.unwrapped.hand.state.room
    return [MOVES[move] for move in room.search.path(room.level.boxes, room.level.player)]


@pytest.mark.parametrize(
    ("text", "legal", "meant"),
    [
        ("u", MOVES, "up"),
        ("R", MOVES, "right"),
        ("do", MOVES, "down"),
        ("up, l", MOVES, "up, left"),
        ("r, r", MOVES, "right, right"),
        ("r,r", MOVES, "right, right"),
        ("rrd", MOVES, "right, right, down"),
        ("up", MOVES, "up"),
        ("upp", MOVES, "upp"),
        ("up,,down", MOVES, "up,,down"),
        ("jump", MOVES, "jump"),
        ("", MOVES, ""),
        ("b", ("check", "bet"), "bet"),
        ("c", ("check", "call"), "c"),
        ("pass", ("fold", "call"), "pass"),
        ("(1", ("(1, 1)", "(1, 2)"), "(1"),
        ("2 2", ("(2, 2)",), "2 2"),
        ("go", ("go", "go north"), "go"),
        ("x", (), "x"),
    ],
)
def test_words_are_spelt_out_where_they_begin_one_action(text, legal, meant):
    assert expand_abbreviations(text, legal) == meant


def test_arrow_keys_solve_a_level(open_terminal, level):
    person = open_terminal(*SOKOBAN, "--hands", "1")
    output = person.until("> ")
    assert board(level) in output
    assert "1) up  2) down  3) left  4) right  (arrow keys, too)" in output
    moves = solution(level)
    for move in moves[:-1]:
        observation = level.step(move)[0]
        person.type(CODES[move])
        assert observation in person.until("> ")
    person.type(CODES[moves[-1]])
    end = person.until(r"You are at \+\S+ points after 1 episode\.")
    assert "The level is solved: every box is on a target." in end
    assert "Opponent" not in end
    assert person.exit_code() == 0


def test_undo_restart_and_new(open_terminal, level):
    start, moves = board(level), solution(level)
    person = open_terminal(*SOKOBAN)
    person.until("> ")
    boards = [level.step(move)[0] for move in moves[:2]]
    for move, board_text in zip(moves, boards):
        person.type(f"{move[0]}\n")
        assert board_text in person.until("\\)\n> ")
    person.type("undo\n")
    assert boards[0] in person.until("\\)\n> ")
    person.type("restart\n")
    assert start in person.until("\\)\n> ")
    person.type("undo\n")
    assert start in person.until("\\)\n> ")
    person.type("fly\n")
    refusal = person.until("\\)\n> ")
    assert "That is not a legal action.\n" in refusal
    assert start in refusal
    person.type("NEW\n")
    new_output = person.until("Episode 1 -(.*\n)*> ")
    level.reset(seed=5)
    assert board(level) in new_output
    person.type("quit\n")
    person.until(r"Bye. You are at \+0 points after 0 episodes.")
    assert person.exit_code() == 0


def test_a_line_can_be_corrected_and_other_keys_do_nothing(open_terminal, level):
    person = open_terminal(*SOKOBAN)
    person.until("> ")
    first_move, second_move = solution(level)[:2]
    expected = [level.step(move)[0] for move in (first_move, second_move)][-1]
    person.type(f"\x1b[3~\x7f√x\x7f\x7f{first_move}, lef{CODES['up']}\x7f\x7f\x7f{second_move}\n")
    assert expected in person.until("\\)\n> ")


@pytest.mark.parametrize(("key", "code"), [("\x04", 0), ("\x03", 130)])
def test_leaving_gives_the_terminal_back(key, code, open_terminal):
    person = open_terminal(*SOKOBAN)
    attributes_before = termios.tcgetattr(person.fd)
    person.until("> ")
    last_output = person.press(key, r"Bye. You are at \+0 points after 0 episodes.")
    assert "Traceback" not in last_output
    assert person.process.wait(timeout=60) == code
    assert termios.tcgetattr(person.fd) == attributes_before


def test_without_a_terminal_lines_are_read(level):
    moves = solution(level)
    lines = ["", str(1 + MOVES.index(moves[0])), *moves[1:]]
    process = subprocess.run(
        [sys.executable, "-m", "mage_envs", *SOKOBAN, "--hands", "1"],
        capture_output=True,
        text=True,
        input="\n".join(lines) + "\n",
        cwd=ROOT,
        timeout=100,
    )
    assert process.returncode == 0, process.stderr
    assert "every box is on a target" in process.stdout
    assert "arrow" not in process.stdout
    assert "\x1b" not in process.stdout


def test_a_limit_of_answers():
    process = subprocess.run(
        [sys.executable, "-m", "mage_envs", *SOKOBAN, "--max-turns", "2", "--hands", "1"],
        capture_output=True,
        text=True,
        input="fly\nswim\n",
        cwd=ROOT,
        timeout=100,
    )
    assert process.stdout.count("That is not a legal action; it spent one of your 2 turns.") == 2
    assert "You ran out of turns" in process.stdout
    wrong = subprocess.run(
        [sys.executable, "-m", "mage_envs", *SOKOBAN, "--max-turns", "0"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
    )
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "Invalid value for '--max-turns': Input should be greater than or equal to 1" in wrong.stderr


@pytest.mark.skipif("terminal" in os.environ.get("LEAVE_OUT", ""), reason="LEAVE_OUT names terminal")
def test_in_tmux_an_arrow_key_redraws_the_board_in_place(tmp_path, level):
    socket = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]

    def tmux(*arguments: str) -> str:
        return subprocess.run([*socket, *arguments], capture_output=True, text=True, check=True, timeout=30).stdout

    def screen(text: str) -> str:
        deadline = time.monotonic() + 60
        while text not in (pane := tmux("capture-pane", "-p", "-t", "play")) or not re.search(r"\n>\s*$", pane):
            assert time.monotonic() < deadline, pane
            time.sleep(0.1)
        return pane

    command = shlex.join([sys.executable, "-m", "mage_envs", *SOKOBAN])
    tmux("new-session", "-d", "-s", "play", "-x", "110", "-y", "40", "-c", str(ROOT), f"{command}; sleep 60")
    try:
        first_pane = screen(board(level))
        for move in solution(level)[:4]:
            tmux("send-keys", "-t", "play", move.capitalize())
            pane = screen(level.step(move)[0])
            assert pane.count("Row 1:") == 1
            assert len(pane.rstrip().splitlines()) == len(first_pane.rstrip().splitlines())
            assert max(map(len, pane.splitlines())) <= 100
    finally:
        tmux("kill-server")
