"""The process in which the checked code runs: `python -m benchmarks.chaos.child FOLDER`, started by the command.

`request.json` in the folder says what to do; what was begun, found and done goes into `records.jsonl`, line by line, so
that it stays when this process dies.
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
from mage_envs import imports

TRANSCRIPTS = "processes"
"""The check that the command does itself, with the transcripts of several processes."""
MAKING = 20
"""The deadline of `gym.make` in deadlines of a call: data and engines load then."""


@dataclass(frozen=True)
class CheckRequest:
    """What a child is to do."""

    env_id: str
    env_kwargs: dict[str, Any]
    modules: list[str]
    checks: list[str]
    seed: int
    episodes: int
    """Seeds per check."""
    deadline: float
    """Seconds for one call of the environment."""

    def write(self, folder: Path) -> None:
        (folder / "request.json").write_text(json.dumps(asdict(self)))


Say = Callable[..., None]
"""Records what its keywords say."""


def _say(path: Path, **record: Any) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def run(folder: Path) -> None:
    """Carries out the request of the folder."""
    request = CheckRequest(**json.loads((folder / "request.json").read_text()))
    say = partial(_say, folder / "records.jsonl")
    with watch(request.deadline * MAKING):
        imports.load_modules(request.modules)
        imports.search_current_folder()
    make = partial(_make, request)
    try:
        make()
    except (ValueError, LookupError, TypeError, ImportError, OSError, gym.error.Error) as error:
        say(unmade=" ".join(str(error).split()))
        return
    for name in request.checks:
        for number in range(1 if name in ONCE else request.episodes):
            seed = request.seed + number
            say(began=name, seed=seed)
            if not _holds(partial(_tried, name, make, seed, say), say):
                break
        say(ended=name)


def _tried(name: str, make: Make, seed: int, say: Say) -> None:
    if name == TRANSCRIPTS:
        say(rows=episodes_of(make, seed), seed=seed)
    else:
        CHECKS[name](make, seed)


def _holds(check: Callable[[], None], say: Say) -> bool:
    """Whether nothing was raised; says what was."""
    try:
        check()
    except Finding as finding:
        say(found=str(finding), trace="")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the checked code may raise anything
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
