"""Child process that runs the checked code: `python -m mage_envs.benchmarks.chaos.child FOLDER`.

The child reads `request.json` from the folder. It appends one line per event (a seed begins, a finding, a check ends)
to `records.jsonl`, so the events survive if this process dies.
"""

from __future__ import annotations

import faulthandler
import json
import pickle
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from traceback import FrameSummary
from typing import Any, SupportsFloat

import gymnasium as gym

from mage_envs.benchmarks.chaos.checks import CHECKS, ONCE
from mage_envs.loading import imports
from mage_envs.testing import CheckedValues, Env, Finding, Make, transcript

_STANDARD = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib"))
_DUMPED = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)


def place_of(frames: Sequence[FrameSummary]) -> str:
    """Return the position of a failure from the frames of a traceback, outermost first."""
    return _innermost([(frame.filename, frame.lineno or 0, frame.name) for frame in reversed(frames)])


def place_of_dump(output: str) -> str | None:
    """Return the position from the last dump of `faulthandler`, or None if the output has no dump."""
    # faulthandler dumps the newest thread first, so the main thread, which runs the checks, is last.
    threads = _THREAD.split(output)
    frames = _DUMPED.findall(threads[-1]) if len(threads) > 1 else []
    return _innermost([(file, int(line), name) for file, line, name in frames]) if frames else None


def _innermost(frames: Sequence[tuple[str, int, str]]) -> str:
    for file, line, name in frames:
        # site-packages may be inside the standard library's folder, but packages there count as checked code.
        if not file.startswith((*_STANDARD, "<")) or "site-packages" in file:
            return f"{Path(file).name}:{line} in {name}"
    return "in no file of its own"


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


@contextmanager
def watch(seconds: float) -> Iterator[None]:
    """End the process and dump its stack to stderr if the block takes longer than `seconds`."""
    # faulthandler's timer runs in a C thread, so that it also ends a loop of compiled code.
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that limits the time of each `reset`, `step`, copy and pickle."""

    def __init__(self, env: Env, deadline: float) -> None:
        super().__init__(env)
        self._deadline = deadline

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        with watch(self._deadline):
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment."""
        with watch(self._deadline):
            return self.env.step(action)

    def __deepcopy__(self, memo: dict[int, Any]) -> Watched:
        with watch(self._deadline):
            return Watched(deepcopy(self.env, memo), self._deadline)

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle of its own, because the outer one is written after this method returns.
        with watch(self._deadline):
            return _unpickle, (pickle.dumps(self.env), self._deadline)


def _unpickle(env: bytes, deadline: float) -> Watched:
    with watch(deadline):
        return Watched(pickle.loads(env), deadline)


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
            if not _holds(partial(_try_check, name, make, seed, say), say):
                break
        say(ended=name)


def _try_check(name: str, make: Make, seed: int, say: Say) -> None:
    if name == TRANSCRIPTS:
        say(rows=transcript(make(), seed), seed=seed)
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
        message = " ".join(f"{type(cause).__name__}: {cause}".split())
        say(found=f"{message} ({place_of(traceback.extract_tb(cause.__traceback__))})", trace=traceback.format_exc())
    else:
        return True
    return False


def _make(request: CheckRequest) -> Env:
    with watch(request.deadline * MAKING):
        env: Env = gym.make(request.env_id, disable_env_checker=True, **request.env_kwargs)
    return CheckedValues(Watched(env, request.deadline))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
