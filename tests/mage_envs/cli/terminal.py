"""A command of this package on a pseudo-terminal, typed at and read by a test; and a report on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from mage_envs.cli.tables import Block, print_report

ROOT = Path(__file__).parents[3]
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes standard input the process's controlling terminal, so that Ctrl-C reaches it; then becomes the command."""


class Terminal:
    """A child process on a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self.fd, theirs = pty.openpty()
        command = [sys.executable, "-c", OWN_TERMINAL, sys.executable, "-m", "mage_envs", *arguments]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, start_new_session=True
        )
        os.close(theirs)
        self.seen = ""

    def until(self, pattern: str, timeout: float = 60) -> str:
        """Read until `pattern` matches the output since the last match, and return that output."""
        deadline = time.monotonic() + timeout
        while (match := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{pattern!r} did not come in {timeout} s: {self.seen}"
            try:
                self.seen += os.read(self.fd, 4096).decode().replace("\r\n", "\n")
            except OSError as error:  # Linux: the child has closed its side
                raise AssertionError(f"{pattern!r} never came: {self.seen}") from error
        part, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return part

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def press(self, key: str, pattern: str) -> str:
        """Types `key` until `pattern` comes.

        A Ctrl-C in the instant between a prompt and the read behind it goes unnoticed, as in any Python program.
        """
        for _ in range(9):
            self.type(key)
            try:
                return self.until(pattern, timeout=5)
            except AssertionError:
                if self.process.poll() is not None:
                    raise
        return self.until(pattern)

    def close(self) -> None:
        """End the child, even if the test failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            os.close(self.fd)

    def exit_code(self) -> int:
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass  # the child has closed its side
        os.close(self.fd)
        return self.process.wait(timeout=60)


ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
"""Codes of colours and of the cursor."""


def be_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, stream: str = "stdout") -> None:
    """Lets a stream of this process pass for a terminal of this width."""
    monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))


def on_terminal(
    blocks: Iterable[Block], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return the text of a report on a terminal, without codes."""
    be_terminal(monkeypatch, columns)
    print_report(blocks)
    screen = capsys.readouterr().out
    assert "\x1b[" in screen
    return ESCAPES.sub("", screen)
