"""Opponents of a game, split into those of training and those held out: the facts of its benchmark panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mage_envs.opponents.registry import load_all_opponents, load_opponents


@dataclass(frozen=True, kw_only=True)
class Split:
    """Opponents of one game for two panels, `<prefix>-train` and `<prefix>-heldout`.

    Opponents are the name of a pool, `"pool:<name>"`, or names with their weights.
    """

    game: str
    seed: int
    """Seed of the panel of training; the held-out panel has the next one."""
    train: str | Mapping[str, float]
    train_about: str
    """Description of these opponents in lists of panels."""
    heldout: str | Mapping[str, float]
    heldout_about: str
    seats: Sequence[int] = (0,)
    """Possible first seats of the learner."""
    headroom: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Names of pools with options of the game, for games that the headroom table shows in other variants than the
    default one."""


_SPLITS: dict[str, Split] = {}


def register_split(prefix: str, split: Split) -> None:
    """Register the split of a game's opponents; raise `ValueError` if another split has the prefix or a seed of it.

    `prefix` is the one of the opponents' names, `kuhn` of `kuhn/nash`.
    """
    for other_prefix, other_split in _SPLITS.items():
        # A split uses two seeds, so the next one needs a distance of 2.
        overlaps = abs(other_split.seed - split.seed) < 2
        if (other_prefix == prefix or overlaps) and (other_prefix, other_split) != (prefix, split):
            raise ValueError(f"Split {other_prefix!r} already has this prefix or seed; choose others for {prefix!r}.")
    _SPLITS[prefix] = split


def list_splits() -> dict[str, Split]:
    """Return the registered splits by their prefix, in the order of their seeds."""
    load_all_opponents()
    return dict(sorted(_SPLITS.items(), key=lambda item: item[1].seed))


def find_split(prefix: str) -> Split | None:
    """Return the split of a prefix, or None. If the prefix belongs to a game, only its opponents are loaded."""
    load_opponents(prefix)
    # A module of another package may register a split without being announced for its prefix.
    if prefix not in _SPLITS:
        load_all_opponents()
    return _SPLITS.get(prefix)
