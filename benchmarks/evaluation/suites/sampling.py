"""Sampling settings of a model under evaluation, as given on the command line and stored in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage_envs.loading.arguments import Spec, call

PAPER: Mapping[str, float] = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
"""Settings of the paper's evaluation."""
FORM = "paper, or settings such as temperature=0.7,top_p=0.8,top_k=20"


def read_sampling(text: str) -> dict[str, float]:
    """Return the settings that a text names. Raise ValueError, with the nearest name, if it is malformed."""
    if text == "paper":
        return dict(PAPER)
    # A list of settings is the part of a specification after its colon.
    return call(f"Sampling {text!r}", Spec("sampling", text), _settings)


def validate_sampling(settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the settings as numbers. Raise ValueError if a name is unknown or a value is out of range."""
    return read_sampling(",".join(f"{name}={value}" for name, value in settings.items())) if settings else {}


def _settings(
    *, temperature: float | None = None, top_p: float | None = None, top_k: int | None = None
) -> dict[str, float]:
    """Return the settings that are not None. Raise ValueError if one is out of range."""
    if temperature is not None and temperature < 0:
        raise ValueError(f"temperature={temperature:g} is out of range. Use {FORM}.")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p:g} is out of range. Use {FORM}.")
    if top_k is not None and top_k < 0:
        raise ValueError(f"top_k={top_k} is out of range. Use {FORM}.")
    settings = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    return {name: value for name, value in settings.items() if value is not None}
