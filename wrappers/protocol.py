"""The two protocols of docs/method.md, as data. Only the table at the end of this module reads a protocol's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Protocol:
    """Rules for the deals, rewards and credit of a meta-episode."""

    reward: str = "task"
    """Name of the episode reward in `GameSettings.rewards`."""
    deal: str = "fresh"
    """`fresh`: every episode has its own deals. `replay`: every episode repeats the deals of episode 0. A single-player
    task repeats under both, and the tasks of a series (`GameSpec.series`) under none."""
    turn_limit: str = "task"
    """Name in `GameSettings.turn_limits`. If the game has no limit of that name, its `max_turns` applies."""
    seat: str = "alternate"
    """`alternate`: seat of hand j is (seat0 + j) mod players; `fixed`: seat0 throughout."""
    early_stop: bool = False
    """True if the meta-episode ends with its first successful episode. Ignored if every episode has another task."""
    timeout_reward: str = "worst"
    """Return of the running and unplayed hands of a timed-out episode: the game's `worst` return or `zero`."""
    penalty_in_return: bool = True
    """True if penalties are part of the step-level return."""
    episode_baseline: str = "episode"
    """Mean that is subtracted from the returns: over the members at the same episode (`episode`) or over all samples of
    the group (`group`)."""
    reflection_anchor: str = "episode"
    """Reflections of a group that are compared: all of them (`shared`), those before the same episode (`episode`), or
    none (`alone`, without a step-level part of the advantage)."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"Protocol({name}={value!r}) is unknown; choose one of: {', '.join(choices)}.")

    @property
    def timeout_value(self) -> float | None:
        """Return the value of a timed-out hand, or None for the game's worst return."""
        return None if self.timeout_reward == "worst" else 0.0


REFLECTION_ANCHORS = ("shared", "episode", "alone")
# Fields that are not listed are names that a game defines (reward, turn_limit) or flags.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "deal": ("fresh", "replay"),
    "seat": ("alternate", "fixed"),
    "timeout_reward": ("worst", "zero"),
    "episode_baseline": ("episode", "group"),
    "reflection_anchor": REFLECTION_ANCHORS,
}

ADAPTIVE = Protocol()
"""Default protocol: the method with its measured defects corrected (docs/method.md, section 6)."""
PAPER = Protocol(
    reward="released",
    deal="replay",
    turn_limit="released",
    seat="fixed",
    early_stop=True,
    timeout_reward="zero",
    penalty_in_return=False,
    episode_baseline="group",
    reflection_anchor="shared",
)
"""Protocol of the released code, for comparison with its results table."""
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({"adaptive": ADAPTIVE, "paper": PAPER})


def series_protocol(protocol: Protocol, deal: str | None) -> Protocol:
    """Return a protocol for a series of related tasks: every episode has a new task, and all of them are played.

    Raises ValueError if the user asked for replayed deals.
    """
    if deal == "replay":
        raise ValueError(
            "deal='replay' would repeat one task, but every episode of a series has another one. Remove deal."
        )
    return replace(protocol, deal="fresh", early_stop=False)


def pop_rotation(options: dict[str, Any], series: bool) -> int:
    """Remove `rotation` from the options of a reset and return it, 0 by default.

    Raises ValueError if the tasks are no series.
    """
    rotation: int = options.pop("rotation", 0)
    if rotation and not series:
        raise ValueError(f"rotation={rotation!r} requires a game of related tasks. Remove rotation.")
    return rotation


def as_protocol(protocol: str | Protocol) -> Protocol:
    """Return the protocol of that name, or a `Protocol` unchanged. Raises ValueError if the name is unknown."""
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in PROTOCOLS:
        raise ValueError(
            f"protocol={protocol!r} is unknown; choose one of: {', '.join(PROTOCOLS)}, or pass a Protocol."
        )
    return PROTOCOLS[protocol]
