"""Identity of a run: the agent and the setting that must be equal to resume it, and differences between JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

IDENTITY = ("fingerprint", "setting")
"""Parts of run.json that must be equal to resume a run, besides the agent."""


class OtherRun(ValueError):
    """The folder contains other files or a run with other settings."""


def compare(recorded: Mapping[str, Any], current: Mapping[str, Any], folder: Path) -> None:
    """Raise OtherRun with all differences if two runs do not measure the same.

    Args:
        recorded: run.json of the folder.
        current: run.json of the current command.
        folder: The folder, for the message.
    """
    differing = [
        f"{path} {short(recorded_value)} there, {short(current_value)} now"
        for path, recorded_value, current_value in run_differences(recorded, current)
    ]
    if differing:
        raise OtherRun(f"{folder} holds a run with other settings ({'; '.join(differing)}); choose another folder.")


def run_differences(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between two runs in the parts of run.json that define what they measure."""
    recorded_agent, current_agent = recorded["agent"], current["agent"]
    # What one of the two does not know does not count as a difference.
    yield from differences(
        merge_agents(current_agent, recorded_agent),
        merge_agents(recorded_agent, current_agent),
        "agent",
    )
    for key in IDENTITY:
        yield from differences(recorded.get(key), current.get(key), key)


def merge_agents(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent `current`, completed by what only the description `recorded` knows of its model."""
    merged = dict(current)
    if recorded.get("served") and current.get("served"):
        merged["served"] = {
            key: recorded["served"][key] if value is None else value for key, value in current["served"].items()
        }
    return merged


def differences(value: Any, other_value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, value, other value) for each difference of two JSON values.

    Args:
        path: Path of both values, with dots between keys; empty for the top level.
    """
    if isinstance(value, dict) and isinstance(other_value, dict):
        for key in sorted({*value, *other_value}):
            yield from differences(value.get(key), other_value.get(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(other_value, list) and len(value) == len(other_value):
        for number, (a, b) in enumerate(zip(value, other_value, strict=True)):
            yield from differences(a, b, f"{path}[{number}]")
    # 1, 1.0 and True are equal in Python, but they are different in JSON.
    elif value != other_value or type(value) is not type(other_value):
        yield path, value, other_value


def short(value: Any) -> str:
    """Return a value as JSON, cut to 80 characters for a message."""
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
