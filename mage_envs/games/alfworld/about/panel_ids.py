"""Tasks of panels of ALFWorld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.games.alfworld.game import ALFWorld


def task_ids(options: Mapping[str, Any], size: int) -> Sequence[str]:
    """Return the first games of a split, either generated or from the user's data."""
    source = ALFWorld(options["split"], data=options["data"]).source
    return [source.task_id(index) for index in range(min(size, len(source)))]
