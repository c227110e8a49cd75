"""What a sweep trains, read from a YAML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

Fields = Mapping[str, Any]
SECTIONS = ("presets", "overrides", "common")
EXAMPLE = (
    "presets: [mage-kuhn, lamer-kuhn], overrides: {base: {}, late: {gamma_episode: 0.9}}, common: {max_rollouts: 20}"
)


@dataclass(frozen=True)
class SweepRun:
    """One training."""

    name: str
    """Of its settings; its seeds share it."""
    seed: int
    arguments: tuple[str, ...]
    """Of mage-train, without seed and folder."""
    file: str | None = None
    """The sweep file that the arguments come from; None for a built-in study."""


def read_plan(path: Path, seeds: int) -> list[SweepRun]:
    """Every preset under every override, `seeds` times. Raises ValueError for a file that says something else."""
    import yaml

    numbers = seeds_of(seeds)
    try:
        read = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(read, Mapping) or not set(read) <= set(SECTIONS):
        raise ValueError(f"{path} must hold {', '.join(SECTIONS)} and nothing else, as in {EXAMPLE}.")
    presets: Sequence[str | None] = read.get("presets") or [None]
    overrides: Mapping[str, Fields] = read.get("overrides") or {"": {}}
    common: Fields = read.get("common") or {}
    kinds = ((presets, list), (overrides, Mapping), (common, Mapping))
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise ValueError(f"{path}: presets is a list, overrides and common are mappings, as in {EXAMPLE}.")
    runs = []
    for preset, (override, fields) in product(presets, overrides.items()):
        name = "-".join(part for part in (preset, override) if part) or "run"
        chosen = ["--preset", preset] if preset else []
        words = (*chosen, *flags({**common, **(fields or {})}))
        runs += [SweepRun(name, seed, words, str(path)) for seed in numbers]
    return runs


def seeds_of(count: int) -> range:
    """The seeds of as many trainings. Raises ValueError where there are none."""
    if count < 1:
        raise ValueError(f"--seeds {count} trains nothing; use at least 1.")
    return range(count)


def flags(fields: Fields) -> list[str]:
    """Fields as arguments of mage-train."""
    found: list[str] = []
    for name, value in fields.items():
        found.append(f"--{name}")
        if isinstance(value, list):
            found += map(str, value)
        elif isinstance(value, Mapping):
            found.append(json.dumps(value))
        else:
            found.append(str(value).lower() if isinstance(value, bool) else str(value))
    return found
