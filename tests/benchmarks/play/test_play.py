"""`mage play`, in a real pseudo-terminal and in tmux."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import time

import pytest

from mage_envs.cli.program import main
from tests.mage_envs.cli.terminal import ROOT

KUHN = ("play", "mage/KuhnPoker-v0", "--opponents", "kuhn/aggressive", "--seed", "3")


def test_two_hands_by_number_and_by_text(open_terminal):
    person = open_terminal(*KUHN, "--hands", "2", "--seat", "first")
    first_screen = person.until("> ")
    assert "Kuhn Poker. The deck has three cards" in first_screen
    assert "Hand 1" in first_screen
    assert re.search(r"Your card: [JQK]. You act first. No action yet.\n1\) check  2\) bet", first_screen)
    person.type("1\n")
    assert "1) fold  2) call" in person.until("> ")
    person.type("2\n")
    assert "then you call.\nThe hand is over: you " in person.until("Total: [+-]2 chips after 1 hand.")
    person.until("Hand 2.*\n(.*\n)*> ")
    person.type(" BET \n")
    person.until("You bet, then the opponent ")
    end = person.until(r"You are at [+-]\d chips after 2 hands.")
    assert "Opponent: kuhn/aggressive." in end
    assert person.exit_code() == 0


def test_seats_alternate_and_bad_answers_are_reported(open_terminal):
    person = open_terminal(*KUHN)
    assert "You act first" in person.until("> ")
    person.type("raise\n")
    assert "not a legal action; it spent one of your 6 turns" in person.until("> ")
    person.type("\n7\n")
    person.until("> ")
    assert "not a legal action" in person.until("2\\) bet\n> ")
    person.type("bet\n")
    assert "You act second" in person.until("Hand 2.*\n(.*\n)*> ")
    person.type("quit\n")
    person.until(r"Bye. You are at [+-]\d chips after 1 hand.")
    assert person.exit_code() == 0


@pytest.mark.parametrize("word", ["help", "?"])
def test_help_costs_no_turn(word: str, open_terminal) -> None:
    person = open_terminal(*KUHN)
    person.until("> ")
    person.type(f"{word}\n")
    assert "Commands: quit. Help costs no turn." in person.until("> ")
    person.type("raise\n")
    assert "not a legal action; it spent one of your 6 turns" in person.until("> ")
    person.type("quit\n")
    person.until("Bye. You are at")


def test_the_parts_of_a_shops_page_are_lines(open_terminal) -> None:
    person = open_terminal("play", "mage/WebShop-v0", "--seed", "1")
    page = person.until("\n> ")
    assert "\nInstruction:\n" in page
    assert "[SEP]" not in page
    person.type("quit\n")
    person.until("Bye. You are at")


@pytest.mark.parametrize(("key", "code"), [("\x04", 0), ("\x03", 130)])
def test_end_of_input_and_ctrl_c_quit_cleanly(key, code, open_terminal):
    person = open_terminal(*KUHN)
    person.until("> ")
    last_output = person.press(key, r"Bye. You are at \+0 chips after 0 hands.")
    assert "Traceback" not in last_output
    assert person.exit_code() == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("play", "mage/KuhnPoker-v0", "--episodes", "2"),
            "--episodes applies to meta-episodes. Play mage/KuhnPoker-Meta-v0.",
        ),
        (("play", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/rok"), "Did you mean 'kuhn/rock'?"),
        (("play", "mage/Kuhn-v0"), "doesn't exist"),
        (("play", "CartPole-v1"), "not a text game of this package"),
        (("play", "mage/KuhnPoker-v0", "--opponents", "kuhn/rok"), "Did you mean 'kuhn/rock'?"),
        (("play", "mage/KuhnPoker-v0", "--hands", "0"), "'--hands': Input should be greater than or equal to 1"),
        (("play", "mage/KuhnPoker-v0", "--opponents", "checkpoint:nowhere"), "no such folder"),
    ],
)
def test_errors_are_one_line_and_exit_2(arguments, message, capsys):
    assert main([*arguments]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    [line] = written.err.splitlines()
    assert line.startswith(("mage: ", "mage play: "))
    assert message in line


@pytest.mark.skipif("terminal" in os.environ.get("LEAVE_OUT", ""), reason="LEAVE_OUT names terminal")
def test_in_tmux(tmp_path):
    socket = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]

    def tmux(*arguments: str) -> str:
        return subprocess.run([*socket, *arguments], capture_output=True, text=True, check=True, timeout=30).stdout

    def screen(pattern: str) -> str:
        deadline = time.monotonic() + 60
        while not re.search(pattern, pane := tmux("capture-pane", "-p", "-t", "play")):
            assert time.monotonic() < deadline, pane
            time.sleep(0.1)
        return pane

    command = shlex.join([sys.executable, "-m", "mage_envs", *KUHN, "--seat", "first"])
    tmux(
        "new-session",
        "-d",
        "-s",
        "play",
        "-x",
        "110",
        "-y",
        "40",
        "-c",
        str(ROOT),
        f"{command}; echo left $?; sleep 60",
    )
    try:
        pane = screen(r"\n>\s*$")
        assert "1) check  2) bet" in pane
        assert max(map(len, pane.splitlines())) <= 100
        tmux("send-keys", "-t", "play", "2", "Enter")
        pane = screen(r"Hand 2 -+\n(.*\n)*>\s*$")
        assert re.search(r"You bet, then the opponent (calls|folds)", pane)
        tmux("send-keys", "-t", "play", "C-c")
        assert "Traceback" not in screen(r"Bye. You are at [+-]\d chips after 1 hand.\s+left 130")
    finally:
        tmux("kill-server")


def test_the_games_own_options(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    assert main(["play", "mage/OpenSpiel-v0", "--game-option", "game=hex(board_size=3)", "--seed", "1"]) == 0
    assert "Hex" in capsys.readouterr().out
    for options, message in (
        ("revael=3", "KuhnPoker does not take these options"),
        ("boxes", "--game-option 'boxes' must have the form NAME=VALUE"),
        ("=3", "--game-option '=3' must have the form NAME=VALUE"),
    ):
        assert main(["play", "mage/KuhnPoker-v0", "--game-option", options]) == 2
        assert message in capsys.readouterr().err
