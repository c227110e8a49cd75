"""Identity of a run: the agent and the setting that must be equal to resume it, and differences between JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mage_envs.opponents.registry import portable_spec

IDENTITY = ("fingerprint", "setting")
"""Parts of run.json that must be equal to resume a run, besides the agent."""
_LATER = ("model", "served")
"""Fields of an agent that older records do not have."""


class OtherRun(ValueError):
    """The folder contains other files or a run with other settings."""


def compare(there: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise OtherRun with all differences if two runs do not measure the same.

    Args:
        there: run.json of the folder.
        now: run.json of the current command.
        folder: The folder, for the message.
    """
    if any(portable_spec(name) != name for name in there.get("setting", {}).get("weights", ())):
        raise OtherRun(
            f"{folder} holds a run of an older version, whose opponents have an address in their names. It can be "
            "replayed, but not resumed. Choose another folder."
        )
    differing = [f"{place} {short(one)} there, {short(other)} now" for place, one, other in different(there, now)]
    if differing:
        raise OtherRun(f"{folder} holds a run with other settings ({'; '.join(differing)}); choose another folder.")


def different(there: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between two runs in the parts of run.json that define what they measure."""
    one, other = there["agent"], now["agent"]
    # What one of the two does not know is no difference.
    yield from differences(_portable(known_agent(other, one)), _portable(known_agent(one, other)), "agent")
    for key in IDENTITY:
        yield from differences(there.get(key), now.get(key), key)


def known_agent(there: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent `now`, completed by what only the description `there` knows of its model."""
    found = {**{key: there[key] for key in _LATER if key in there}, **now}
    if there.get("served") and now.get("served"):
        found["served"] = {key: there["served"][key] if one is None else one for key, one in now["served"].items()}
    return found


def _portable(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent without the server that older versions wrote into its name."""
    return {**agent, "name": portable_spec(agent["name"])}


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, value, other value) for each difference of two JSON values.

    Args:
        one: A JSON value.
        other: The value to compare with.
        place: Path of both values, with dots between keys; empty for the top level.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{place}.{key}" if place else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{place}[{number}]")
    # 1, 1.0 and True are equal in Python, but they are different in JSON.
    elif one != other or type(one) is not type(other):
        yield place, one, other


def known_part(made: Any, kept: Any) -> Any:
    """Return `made` without the keys that `kept` does not have, because an older version may have written `kept`."""
    if isinstance(made, dict) and isinstance(kept, dict):
        return {key: known_part(value, kept[key]) for key, value in made.items() if key in kept}
    if isinstance(made, list) and isinstance(kept, list) and len(made) == len(kept):
        return [known_part(a, b) for a, b in zip(made, kept, strict=True)]
    return made


def short(value: Any) -> str:
    """Return a value as JSON, cut to 80 characters for a message."""
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
