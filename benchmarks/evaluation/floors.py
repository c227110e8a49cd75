"""Floors of tasks that repeat: what policies score there that read no page, learn nothing, or remember nothing.

A meta-episode over one and the same task rewards remembering what was tried. What that is worth without understanding
is told by policies that play the same panel, through the same `evaluate`; their rows are kept in the cache.
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
from benchmarks.evaluation.agents import Agent, make_agent
from benchmarks.evaluation.environments import game_of
from benchmarks.evaluation.scores import ScoreRow, read_scores, summarise
from benchmarks.evaluation.suites import Setting
from mage_envs.cache import cache_root
from mage_envs.durable import files_below, write_atomically
from trainer.trajectory import Trajectory

Play = Callable[[Agent, Setting], Sequence[Trajectory]]
"""Plays all tasks of a setting once, as `evaluate` does."""

FLOORS: Mapping[str, Mapping[str, str]] = {
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
"""Game to what its rows are called and the agents that they are of."""
_SHOWN = ("memory", "context", "style", "max_calls", "mode", "option_state", "num_prev_obs", "num_prev_actions")
"""Options that change what a learner is shown, and not what is played: the policies play without them."""


def floor_rows(setting: Setting, play: Play) -> tuple[ScoreRow, ...]:
    """The rows of the floors over all tasks of a setting; none in games that have no floors.

    Rows are kept by the setting's fingerprint, which tells tasks, options and data, and by this version's code. A floor
    that cannot be played under these options is left out, with a warning.
    """
    game = game_of(setting.panel.env_id, setting.options)
    specs = FLOORS.get(game.facts.name, {})
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
                row = replace(summarise(play(make_agent(spec), plain), game).overall, costs=None)  # of another day
            except RuntimeError as error:
                warnings.warn(f"The row {label!r} is left out: {error}", RuntimeWarning, stacklevel=2)
                continue
            if not row.failures:
                with suppress(OSError):  # a cache that cannot be written to is no reason to lose the scores
                    write_atomically(path, json.dumps(asdict(row)))
        rows.append(replace(row, opponent=label))
    return tuple(rows)


def _kept(path: Path) -> ScoreRow | None:
    try:
        return read_scores(ScoreRow, path.read_bytes())
    except (OSError, ValueError, LookupError, TypeError):
        return None  # not there, or not whole: it is played again


@cache
def _code() -> str:
    """Tells this version's code and word tables apart from all others."""
    told = sha256()
    for package in (mage_envs, opponents, wrappers, trainer):
        root = Path(package.__path__[0])
        for file in files_below(root):
            if file.suffix != ".pyc":
                told.update(f"{package.__name__} {file.relative_to(root)} ".encode() + file.read_bytes())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        told.update(f"{file.name} ".encode() + file.read_bytes())
    return told.hexdigest()
