"""What the program and its commands write alike: errors, and the spelling of flags."""

from __future__ import annotations

import sys


def hyphenate(name: str) -> str:
    """Return the spelling of a flag or a choice in which the program compares names."""
    return name.replace("_", "-")


def complain(text: str) -> None:
    """Write an error to stderr, drawn by rich in red on a terminal."""
    if sys.stderr.isatty():
        # Imported here, because rich takes longer than a short command, and pipes do not need it.
        from rich.console import Console
        from rich.text import Text

        Console(file=sys.stderr).print(Text(text, style="red"))
    else:
        sys.stderr.write(text + "\n")
