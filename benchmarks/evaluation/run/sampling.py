"""Sampling settings of a model under evaluation, as given on the command line and stored in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage_envs.loading.arguments import nearest_name

PAPER: Mapping[str, float] = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
"""Settings of the paper's evaluation."""
FORM = "paper, or settings such as temperature=0.7,top_p=0.8,top_k=20"


def read_sampling(text: str) -> dict[str, float]:
    """Return the settings that a text names. Raise ValueError, with the nearest name, if it is malformed."""
    if text == "paper":
        return dict(PAPER)
    parts = [part.partition("=") for part in text.split(",")]
    if len({name for name, _, _ in parts}) < len(parts):
        raise ValueError(f"--sampling {text} sets one setting twice. Use {FORM}.")
    return checked({name.strip(): value for name, _, value in parts})


def checked(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the settings as numbers. Raise ValueError if a name is unknown or a value is out of range."""
    found: dict[str, float] = {}
    for name, value in given.items():
        if name not in PAPER:
            raise ValueError(f"Unknown setting of sampling {name!r}.{nearest_name(name, PAPER)} Use {FORM}.")
        try:
            found[name] = int(value) if name == "top_k" else float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} of the sampling must be a number, got {value!r}. Use {FORM}.") from None
        good = {"temperature": found[name] >= 0, "top_p": 0 < found[name] <= 1, "top_k": found[name] >= 0}[name]
        if not good:
            raise ValueError(f"{name}={value} is out of range. Use {FORM}.")
    return found
