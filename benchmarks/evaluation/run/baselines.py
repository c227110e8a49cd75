"""Reference rows of a game: scores of policies that ignore the text, learn nothing, remember nothing or know all.

A meta-episode that repeats one task rewards a memory of earlier attempts. These policies, which the game's settings
name (`GameSettings.references`), play the same panel through the same `evaluate`. Their rows are cached.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import mage_envs
from mage_envs import opponents, wrappers
from mage_envs.benchmarks.evaluation.run.agents import Agent, make_agent
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, read_scores, summarise
from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.files.atomic import files_below, write_atomically
from mage_envs.files.cache import cache_root
from mage_envs.wrappers.env_metadata import EnvMetadata
from mage_envs.wrappers.rollout.trajectory import Trajectory

Play = Callable[[Agent, Setting], Sequence[Trajectory]]
"""Function that plays all tasks of a setting once, as `evaluate` does."""

_SHOWN = ("memory", "context", "style", "max_calls", "mode", "option_state", "num_prev_obs", "num_prev_actions")
"""Options that change the prompts, but not the task. The baselines play without them, so that settings which differ
only in these options share the cached rows."""


def baseline_rows(setting: Setting, play: Play) -> tuple[ScoreRow, ...]:
    """Return the rows of the baselines over all tasks of a setting; empty if the game has none.

    The key of the cache is the setting's fingerprint (tasks, options, data) and the hash of this version's code. If a
    baseline cannot be played under these options, it is left out with a warning.
    """
    described: EnvMetadata = make_envs(setting.panel.env_id, setting.options)[0].get_wrapper_attr("env_metadata")
    specs = described.settings.references
    if not specs:
        return ()
    game = game_of(setting.panel.env_id, setting.options)
    panel, env_kwargs = (
        {name: value for name, value in options.items() if name not in _SHOWN}
        for options in (setting.panel.env_kwargs, setting.env_kwargs)
    )
    # A row of a policy that knows the opponent reads its name in `Turn.opponent`.
    env_kwargs |= {"memory": "none", "reveal_opponent": True}
    plain = replace(setting, panel=replace(setting.panel, env_kwargs=panel), env_kwargs=env_kwargs)
    weights = setting.panel.weights() or None
    rows = []
    for label, spec in specs.items():
        cache_key = f"{plain.fingerprint} {spec} {_hash_code()}"
        path = cache_root() / "floors" / f"{sha256(cache_key.encode()).hexdigest()[:32]}.json"
        row = _load_cached_row(path)
        if row is None:
            try:
                # A cached row would show the duration of an earlier run, so costs are not stored.
                row = replace(summarise(play(make_agent(spec), plain), game, weights=weights).overall, costs=None)
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


def _load_cached_row(path: Path) -> ScoreRow | None:
    """Return the cached row, or None if it is missing or damaged."""
    try:
        return read_scores(ScoreRow, path.read_bytes())
    except (OSError, ValueError, LookupError, TypeError):
        return None


@cache
def _hash_code() -> str:
    """Return a hash of this version's code and word tables."""
    digest = sha256()
    for package in (mage_envs, opponents, wrappers):
        root = Path(package.__path__[0])
        for file in files_below(root):
            if file.suffix != ".pyc":
                digest.update(f"{package.__name__} {file.relative_to(root)} ".encode() + file.read_bytes())
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(f"{file.name} ".encode() + file.read_bytes())
    return digest.hexdigest()
