"""How the replies of a model under evaluation are sampled, as it is given on the command line and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage_envs.arguments import nearest_name

PAPER: Mapping[str, float] = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
"""Of the paper's evaluation."""
FORM = "paper, or as in temperature=0.7,top_p=0.8,top_k=20"


def read_sampling(text: str) -> dict[str, float]:
    """The settings that a text names; raises ValueError with the nearest name."""
    if text == "paper":
        return dict(PAPER)
    parts = [part.partition("=") for part in text.split(",")]
    if len({name for name, _, _ in parts}) < len(parts):
        raise ValueError(f"--sampling {text} gives one setting twice; write {FORM}.")
    return checked({name.strip(): value for name, _, value in parts})


def checked(given: Mapping[str, Any]) -> dict[str, float]:
    """The same as numbers; raises ValueError for an unknown name and for what cannot be."""
    found: dict[str, float] = {}
    for name, value in given.items():
        if name not in PAPER:
            raise ValueError(f"Unknown setting of sampling {name!r}.{nearest_name(name, PAPER)} Write {FORM}.")
        try:
            found[name] = int(value) if name == "top_k" else float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} of the sampling is a number, got {value!r}; write {FORM}.") from None
        good = {"temperature": found[name] >= 0, "top_p": 0 < found[name] <= 1, "top_k": found[name] >= 0}[name]
        if not good:
            raise ValueError(f"{name}={value} is not possible; write {FORM}.")
    return found
