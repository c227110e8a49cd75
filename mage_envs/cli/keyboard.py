"""Input of a user: abbreviated actions, and arrow keys, which answer without Enter if the terminal supports them."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""Action of each arrow key, by the last letter of the key's code."""
WIDEST = 100
ESCAPE, END_OF_INPUT, ERASERS = "\x1b", "\x04", ("\x7f", "\b")


class TypedLine(NamedTuple):
    """A typed line, or the action of an arrow key."""

    text: str
    by_key: bool = False


def screen_width() -> int:
    """Return the width of the terminal in characters, 100 at most."""
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def wrap_lines(text: str) -> str:
    """Return the text with each line wrapped at words to the width of the terminal. Short lines stay as they are."""
    width = screen_width()
    lines = (
        line if len(line) <= width else textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n")
    )
    return "\n".join(lines)


def expand_abbreviations(text: str, legal: Sequence[str]) -> str:
    """Return `text` with its abbreviations completed, or unchanged if one of them is unknown or ambiguous.

    Words are separated by commas. A word that begins exactly one legal action becomes that action. If it begins none,
    each of its letters is completed. If these actions are legal, `u` becomes `up`, and both `r, r` and `rr` become
    `right, right`.
    """
    # A legal action is never completed, even if it begins a longer one.
    if text in legal:
        return text
    actions: list[str] = []
    for word in text.lower().split(","):
        word = word.strip()
        completion = _complete(word, legal)
        letters = [completion] if completion else [_complete(letter, legal) for letter in word]
        if not letters or None in letters:
            return text
        actions += [action for action in letters if action]
    return ", ".join(actions)


def _complete(beginning: str, legal: Sequence[str]) -> str | None:
    if beginning in legal:
        return beginning
    matches = [action for action in legal if action.startswith(beginning)]
    return matches[0] if len(matches) == 1 and beginning else None


def takes_arrows(legal: Sequence[str]) -> bool:
    """Return True if arrow keys can answer: all four directions are legal, and input and output are a terminal."""
    at_terminal = sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()
    return at_terminal and set(ARROWS.values()) <= set(legal)


def ask(prompt: str, legal: Sequence[str]) -> TypedLine:
    """Read a line of input, or an arrow key on an empty line. Raises EOFError at the end of the input."""
    if not takes_arrows(legal):
        return TypedLine(input(prompt))
    line = ""
    with _keys_one_by_one():
        # The prompt comes after the change of mode, because from then on input is read key by key.
        print(prompt, end="", flush=True)
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
    """Make the terminal pass on each key at once without showing it. Ctrl-C still interrupts."""
    if sys.platform == "win32":
        raise OSError("Reading single keys requires a Unix terminal.")
    # Windows does not have these modules.
    import termios
    import tty

    terminal = sys.stdin.fileno()
    previous_settings = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, previous_settings)


def _read_key() -> str:
    """Read one character, or the whole code of a key that sends several. Raises EOFError if the terminal is gone."""
    code = _read_character()
    # A key's code begins with Escape and arrives at once. Escape alone is the Escape key itself.
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
    first_byte = character[0]
    # In UTF-8, the first byte shows how many bytes follow.
    extra_bytes = sum(first_byte >= start for start in (0xC0, 0xE0, 0xF0))
    return (character + b"".join(os.read(sys.stdin.fileno(), 1) for _ in range(extra_bytes))).decode("utf-8", "replace")


def _is_waiting() -> bool:
    """Return True if more input arrives within 50 ms: the rest of a key's code does, the next key does not."""
    import select

    return bool(select.select([sys.stdin], [], [], 0.05)[0])
