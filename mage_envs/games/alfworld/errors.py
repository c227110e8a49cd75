"""Errors before a game is played: a bad game file, a missing engine."""

from __future__ import annotations

import sys

UNSUPPORTED_PYTHON = (3, 13)
"""First version of Python that the engine does not support, as the extra `alfworld` states it."""


class GameFileError(ValueError):
    """Error for a game file that cannot be played."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(path, cause)
        self.path = path
        """Path of the file, or a description of a game that was not read from a file."""
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.path} is not a playable ALFWorld game: {self.cause}."


def describe(error: BaseException) -> str:
    """Return the error of another library in one line of bounded length, its type first."""
    text = " ".join(str(error).split())
    excerpt = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {excerpt}" if excerpt else type(error).__name__


def engine_missing(package: str) -> ImportError:
    """Return the error for an engine that is not installed."""
    if sys.version_info >= UNSUPPORTED_PYTHON:
        # The extra installs nothing here, so its command would not help.
        return ImportError(
            f"ALFWorld requires {package}, which supports Python 3.11 and 3.12, and this is Python "
            f"{sys.version_info.major}.{sys.version_info.minor}. Make an environment with one of them, and install "
            'with: pip install "mage-envs[alfworld]"'
        )
    return ImportError(
        f'ALFWorld requires {package}. Install it with: pip install "mage-envs[alfworld]". '
        "The installation compiles the engine. "
        "It requires a C++ compiler and make (Debian: apt-get install build-essential) and a command named python on "
        "PATH, as in an activated virtual environment (otherwise: apt-get install python-is-python3)."
    )
