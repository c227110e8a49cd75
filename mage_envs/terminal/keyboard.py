"""What a person types: short spellings of actions, and arrow keys, which answer at once where a terminal has them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""The last letter of an arrow key's code to the action that it stands for."""
WIDEST = 100
ESCAPE, END_OF_INPUT, ERASERS = "\x1b", "\x04", ("\x7f", "\b")


class TypedLine(NamedTuple):
    """A line, or what an arrow key stands for."""

    text: str
    by_key: bool = False


def screen_width() -> int:
    """Characters in a line of output: the terminal's, 100 at most."""
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def spelt_out(text: str, legal: Sequence[str]) -> str:
    """`text` with each word that is the beginning of just one legal action spelt out; else as it is.

    Words are separated by commas; one that begins nothing is read as the beginnings of several, a letter each. So
    `u` is `up`, and `r, r` and `rr` are `right, right`, where these are legal.
    """
    if text in legal:
        return text
    found: list[str] = []
    for word in text.lower().split(","):
        word = word.strip()
        whole = _begun_by(word, legal)
        letters = [whole] if whole else [_begun_by(letter, legal) for letter in word]
        if not letters or None in letters:
            return text
        found += [action for action in letters if action]
    return ", ".join(found)


def _begun_by(beginning: str, legal: Sequence[str]) -> str | None:
    if beginning in legal:
        return beginning
    matches = [action for action in legal if action.startswith(beginning)]
    return matches[0] if len(matches) == 1 and beginning else None


def takes_arrows(legal: Sequence[str]) -> bool:
    """Whether arrow keys can answer: all four directions are legal, and a person sits at a terminal."""
    at_terminal = sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()
    return at_terminal and set(ARROWS.values()) <= set(legal)


def ask(prompt: str, legal: Sequence[str]) -> TypedLine:
    """A line of input, or an arrow key on an empty line. Raises EOFError at the end of the input."""
    if not takes_arrows(legal):
        return TypedLine(input(prompt))
    line = ""
    with _keys_one_by_one():
        print(prompt, end="", flush=True)  # only now: what is typed from here on is read key by key
        while True:
            key = _read_key()
            if key.startswith(ESCAPE):
                if key[-1] in ARROWS and not line:
                    print()
                    return TypedLine(ARROWS[key[-1]], by_key=True)
            elif key in "\r\n":
                print()
                return TypedLine(line)
            elif key == END_OF_INPUT and not line:
                raise EOFError
            elif key in ERASERS:
                print("\b \b" if line else "", end="", flush=True)
                line = line[:-1]
            elif key.isprintable():
                print(key, end="", flush=True)
                line += key


@contextmanager
def _keys_one_by_one() -> Iterator[None]:
    """The terminal gives each key at once and shows none; Ctrl-C still interrupts."""
    if sys.platform == "win32":
        raise OSError("Keys are read one by one only on terminals of Unix.")
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_key() -> str:
    """One character, or the whole code of a key that sends several. Raises EOFError when the terminal is gone."""
    code = _read_character()
    if code != ESCAPE or not _is_waiting():
        return code
    code += _read_character()
    while code[-1] in "[O;" or code[-1].isdigit():
        code += _read_character()
    return code


def _read_character() -> str:
    character = os.read(sys.stdin.fileno(), 1)
    if not character:
        raise EOFError
    first = character[0]
    more = 0 if first < 0xC0 else 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    return (character + b"".join(os.read(sys.stdin.fileno(), 1) for _ in range(more))).decode("utf-8", "replace")


def _is_waiting() -> bool:
    """Whether more of a key's code comes; a key's code comes at once, unlike the next key."""
    import select

    return bool(select.select([sys.stdin], [], [], 0.05)[0])
