"""Plan of a sweep: its trainings, read from a YAML file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from mage_envs.files.bounded import read_yaml
from mage_envs.trainer.config.file_fields import check_file_fields

Fields = Mapping[str, Any]
NAME = r"(\w[\w=+,. -]*)?"
"""Pattern of an override's name. The empty name is that of the settings without an override."""
SECTIONS = ("presets", "overrides", "common")
EXAMPLE = (
    "presets: [mage-kuhn, lamer-kuhn], overrides: {base: {}, late: {gamma_episode: 0.9}}, common: {max_rollouts: 20}"
)


@dataclass(frozen=True)
class SweepRun:
    """One training of a sweep."""

    name: str
    """Name of the settings, shared by all seeds."""
    seed: int
    arguments: tuple[str, ...]
    """arguments of mage train without the seed and the folder."""
    file: str | None = None
    """Sweep file that contains the arguments, or None for a built-in study."""
    panels: tuple[str, ...] = ()
    """Panels on which the trained model is evaluated."""


def read_plan(path: Path, seeds: int) -> list[SweepRun]:
    """Return every preset with every override, once per seed. Raise ValueError if the file is not a valid plan."""
    # Checked first: the number of seeds is wrong whether or not the file is valid.
    numbers = seeds_of(seeds)
    read = read_yaml(path)
    if not isinstance(read, Mapping) or not set(read) <= set(SECTIONS):
        raise ValueError(f"{path} must contain {', '.join(SECTIONS)} and nothing else, as in {EXAMPLE}.")
    # An empty section is None in YAML. Without presets or overrides, one run without them remains.
    presets: Sequence[str | None] = read.get("presets") or [None]
    overrides: Mapping[str, Fields] = read.get("overrides") or {"": {}}
    common: Fields = read.get("common") or {}
    kinds = ((presets, list), (overrides, Mapping), (common, Mapping))
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise ValueError(f"{path}: presets must be a list, overrides and common must be mappings, as in {EXAMPLE}.")
    for name in (*filter(None, presets), *overrides):
        # Names become a folder below --out.
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise ValueError(f"{path}: {name!r} must be a name of letters, digits, '_', '.', ',', '=', '+' and '-'.")
    for name, changes in overrides.items():
        if not isinstance(changes, Mapping | None):
            raise ValueError(f"{path}: the override {name!r} must be a mapping of fields, as in {EXAMPLE}.")
        check_file_fields(changes or {}, path)
    check_file_fields(common, path)
    runs = []
    for preset, (override, fields) in product(presets, overrides.items()):
        name = "-".join(part for part in (preset, override) if part) or "run"
        preset_flags = ["--preset", preset] if preset else []
        # An override takes precedence over the common fields.
        words = (*preset_flags, *flags({**common, **(fields or {})}))
        runs += [SweepRun(name, seed, words, str(path)) for seed in numbers]
    return runs


def seeds_of(count: int) -> range:
    """Return the seeds of `count` trainings. Raise ValueError if `count` is below 1."""
    if count < 1:
        raise ValueError(f"--seeds {count} trains nothing; use at least 1.")
    return range(count)


def flags(fields: Fields) -> list[str]:
    """Return fields as arguments of mage train."""
    arguments: list[str] = []
    for name, value in fields.items():
        arguments.append(f"--{name}")
        if isinstance(value, list):
            arguments += map(str, value)
        elif isinstance(value, Mapping):
            arguments.append(json.dumps(value))
        else:
            arguments.append(str(value).lower() if isinstance(value, bool) else str(value))
    return arguments
