"""Baselines of tasks that repeat: scores of policies that ignore the text, learn nothing or remember nothing.

A meta-episode that repeats one task rewards a memory of earlier attempts. These policies play the same panel through
the same `evaluate`, which shows the value of such a memory without understanding. Their rows are cached.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import mage_envs
import opponents
import trainer
import wrappers
from benchmarks.evaluation.run.agents import Agent, make_agent
from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.scoring.scores import ScoreRow, read_scores, summarise
from benchmarks.evaluation.suites import Setting
from mage_envs.files.atomic import files_below, write_atomically
from mage_envs.files.cache import cache_root
from trainer.method.trajectory import Trajectory

Play = Callable[[Agent, Setting], Sequence[Trajectory]]
"""Function that plays all tasks of a setting once, as `evaluate` does."""

BASELINES: Mapping[str, Mapping[str, str]] = {
    "Sokoban": {
        "floor: random": "scripted:random",
        "expert, who needs no memory": "policy:sokoban/expert",
    },
    "ALFWorld": {
        "floor: random": "scripted:random",
        "expert without memory": "policy:alfworld/expert-without-memory",
        "expert with memory": "policy:alfworld/expert",
    },
    "WebShop": {
        "floor: random": "scripted:random",
        "floor: webshop/first": "policy:webshop/first",
        "floor: webshop/next": "policy:webshop/next",
    },
}
"""Game to its baselines: the label of the row, and the agent that plays it."""
_SHOWN = ("memory", "context", "style", "max_calls", "mode", "option_state", "num_prev_obs", "num_prev_actions")
"""Options that change the prompts, but not the task. The baselines play without them, so that settings which differ
only in these options share the cached rows."""


def baseline_rows(setting: Setting, play: Play) -> tuple[ScoreRow, ...]:
    """Return the rows of the baselines over all tasks of a setting; empty if the game has none.

    The key of the cache is the setting's fingerprint (tasks, options, data) and the hash of this version's code. If a
    baseline cannot be played under these options, it is left out with a warning.
    """
    game = game_of(setting.panel.env_id, setting.options)
    specs = BASELINES.get(game.spec.name, {})
    if not specs:
        return ()
    panel, given = (
        {name: value for name, value in options.items() if name not in _SHOWN}
        for options in (setting.panel.env_kwargs, setting.env_kwargs)
    )
    plain = replace(setting, panel=replace(setting.panel, env_kwargs=panel), env_kwargs={**given, "memory": "none"})
    rows = []
    for label, spec in specs.items():
        told = f"{plain.fingerprint} {spec} {_code()}"
        path = cache_root() / "floors" / f"{sha256(told.encode()).hexdigest()[:32]}.json"
        row = _kept(path)
        if row is None:
            try:
                # A cached row would show the duration of an earlier run, so costs are not stored.
                row = replace(summarise(play(make_agent(spec), plain), game).overall, costs=None)
            except RuntimeError as error:
                warnings.warn(f"The row {label!r} is left out: {error}", RuntimeWarning, stacklevel=2)
                continue
            # Failures may not occur again, so such a row is not cached.
            if not row.failures:
                # A cache that is not writable must not cost the scores.
                with suppress(OSError):
                    write_atomically(path, json.dumps(asdict(row)))
        rows.append(replace(row, opponent=label))
    return tuple(rows)


def _kept(path: Path) -> ScoreRow | None:
    """Return the cached row, or None if it is missing or damaged."""
    try:
        return read_scores(ScoreRow, path.read_bytes())
    except (OSError, ValueError, LookupError, TypeError):
        return None


@cache
def _code() -> str:
    """Return a hash of this version's code and word tables."""
    told = sha256()
    for package in (mage_envs, opponents, wrappers, trainer):
        root = Path(package.__path__[0])
        for file in files_below(root):
            if file.suffix != ".pyc":
                told.update(f"{package.__name__} {file.relative_to(root)} ".encode() + file.read_bytes())
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        told.update(f"{file.name} ".encode() + file.read_bytes())
    return told.hexdigest()
