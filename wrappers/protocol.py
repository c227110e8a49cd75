"""The two protocols of docs/method.md, as data. Nothing but the table at the end ever reads a protocol's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mage_envs.core import GameFacts


@dataclass(frozen=True)
class Protocol:
    """How a meta-episode is dealt, paid and credited."""

    reward: str = "task"
    """Name in `GameSettings.rewards`."""
    deal: str = "fresh"
    """`fresh`: every episode has its own deals; `replay`: the deals of episode 0 come again. Single-player tasks
    repeat their task under both."""
    turn_limit: str = "task"
    """Name in `GameSettings.turn_limits`; the game's `max_turns` where it has none of that name."""
    seat: str = "alternate"
    """`alternate`: seat of hand j is (seat0 + j) mod players; `fixed`: seat0 throughout."""
    early_stop: bool = False
    """Whether the meta-episode ends with its first successful episode."""
    timeout_reward: str = "worst"
    """What the running and unplayed hands of a timed-out episode count: the game's `worst` return or `zero`."""
    penalty_in_return: bool = True
    """Whether penalties are part of the step-level return."""
    episode_baseline: str = "episode"
    """Mean that centres the returns: `episode` (the members' at the same episode) or `group` (all samples)."""
    reflection_anchor: str = "episode"
    """Which reflections of a group are compared: all of them (`shared`), those before the same episode (`episode`), or
    none (`alone`: no step part)."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"Protocol({name}={value!r}) is unknown; choose one of: {', '.join(choices)}.")

    def timeout_value(self, facts: GameFacts) -> float:
        """What a timed-out hand counts, in the game's unit."""
        return facts.min_return if self.timeout_reward == "worst" else 0.0


REFLECTION_ANCHORS = ("shared", "episode", "alone")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "deal": ("fresh", "replay"),
    "seat": ("alternate", "fixed"),
    "timeout_reward": ("worst", "zero"),
    "episode_baseline": ("episode", "group"),
    "reflection_anchor": REFLECTION_ANCHORS,
}

ADAPTIVE = Protocol()
"""The default: the method with its measured defects mended (docs/method.md, section 6)."""
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
"""What the released code computes, so that its table can be compared."""
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({"adaptive": ADAPTIVE, "paper": PAPER})


def as_protocol(protocol: str | Protocol) -> Protocol:
    """A protocol by name, or itself."""
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in PROTOCOLS:
        raise ValueError(
            f"protocol={protocol!r} is unknown; choose one of: {', '.join(PROTOCOLS)}, or give a Protocol."
        )
    return PROTOCOLS[protocol]
