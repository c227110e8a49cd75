"""What can go wrong before a game is played: a bad game file, a missing engine."""

from __future__ import annotations


class GameFileError(ValueError):
    """A game file that cannot be played, whatever is the matter with it."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(path, cause)
        self.path = path
        """The file, or words for a game that was not read from one."""
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.path} is no playable ALFWorld game: {self.cause}."


def described(error: BaseException) -> str:
    """A foreign error in one line of bounded length, its type first."""
    text = " ".join(str(error).split())
    shown = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def engine_missing(package: str) -> ImportError:
    """The error for an engine that is not installed."""
    return ImportError(
        f'ALFWorld needs {package}. Install it with: pip install "mage-envs[alfworld]". '
        "The engine is compiled on the way: "
        "this takes a C++ compiler and make (Debian: apt-get install build-essential) and a command named python on "
        "PATH, as in an activated virtual environment (else: apt-get install python-is-python3)."
    )
