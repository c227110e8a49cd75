"""What `mage doctor` says about Sokoban: generators and level files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mage_envs.loading.extras import version_or

BOXOBAN = "BOXOBAN_LEVELS"


def rows() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each finding."""
    brings = 'not installed; pip install "mage-envs[gym-sokoban]" brings its generator'
    yield "gym-sokoban", version_or("gym-sokoban", brings)
    path = os.environ.get(BOXOBAN)
    if not path:
        yield "Boxoban levels", f"none: {BOXOBAN} is not set (Sokoban makes its own rooms)"
        return
    folder = Path(path)
    count = sum(1 for _ in folder.rglob("*.txt")) if folder.is_dir() else 0
    yield "Boxoban levels", f"{BOXOBAN}={path}, " + (f"{count} level files" if count else "which holds no level file")
