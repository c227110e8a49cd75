"""Child process that runs the checked code: `python -m benchmarks.chaos.child FOLDER`, started by the command.

The child reads `request.json` from the folder. It appends one line per event (a seed begins, a finding, a check ends)
to `records.jsonl`, so the events survive if this process dies.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.chaos.checks import CHECKS, ONCE
from benchmarks.chaos.places import place_of
from benchmarks.chaos.playing import Env, Finding, Make, Watched, episodes_of, watch
from mage_envs.loading import imports

TRANSCRIPTS = "processes"
"""Name of the check that compares transcripts of several processes. The command itself compares them."""
MAKING = 20
"""Timeout of `gym.make` as a multiple of the timeout per call, because `gym.make` loads data and engines."""


@dataclass(frozen=True)
class CheckRequest:
    """Request to a child process: the environment to make and the checks to run."""

    env_id: str
    env_kwargs: dict[str, Any]
    modules: list[str]
    checks: list[str]
    seed: int
    episodes: int
    """Number of seeds per check."""
    deadline: float
    """Timeout per call of the environment in seconds."""

    def write(self, folder: Path) -> None:
        """Write the request to `request.json` in a folder."""
        (folder / "request.json").write_text(json.dumps(asdict(self)))


Say = Callable[..., None]
"""Function that records its keyword arguments as one event."""


def _say(path: Path, **record: Any) -> None:
    # Opened and closed for each event: a line that was written stays if the next call kills this process.
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def run(folder: Path) -> None:
    """Run the checks of the request in a folder and record their events there."""
    request = CheckRequest(**json.loads((folder / "request.json").read_text()))
    say = partial(_say, folder / "records.jsonl")
    with watch(request.deadline * MAKING):
        imports.load_modules(request.modules)
        imports.search_current_folder()
    make = partial(_make, request)
    try:
        # Made once before the checks: wrong arguments are the user's mistake, not a finding.
        make()
    except (ValueError, LookupError, TypeError, ImportError, OSError, gym.error.Error) as error:
        say(unmade=" ".join(str(error).split()))
        return
    for name in request.checks:
        for number in range(1 if name in ONCE else request.episodes):
            seed = request.seed + number
            say(began=name, seed=seed)
            # One finding per check is enough, because further seeds mostly show the same cause.
            if not _holds(partial(_tried, name, make, seed, say), say):
                break
        say(ended=name)


def _tried(name: str, make: Make, seed: int, say: Say) -> None:
    if name == TRANSCRIPTS:
        say(rows=episodes_of(make, seed), seed=seed)
    else:
        CHECKS[name](make, seed)


def _holds(check: Callable[[], None], say: Say) -> bool:
    """Return True if the check raises nothing, else record the exception as a finding."""
    try:
        check()
    except Finding as finding:
        say(found=str(finding), trace="")
    except KeyboardInterrupt:
        raise
    # BaseException: the checked code may raise anything, SystemExit included.
    except BaseException as error:
        # The innermost cause is in the checked code; the outer exceptions are those of the suite.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        told = " ".join(f"{type(cause).__name__}: {cause}".split())
        say(found=f"{told} ({place_of(traceback.extract_tb(cause.__traceback__))})", trace=traceback.format_exc())
    else:
        return True
    return False


def _make(request: CheckRequest) -> Env:
    with watch(request.deadline * MAKING):
        env: Env = gym.make(request.env_id, disable_env_checker=True, **request.env_kwargs)
    return Watched(env, request.deadline)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
