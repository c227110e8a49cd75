"""Suites: groups of settings, and the paper's reported scores for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

from benchmarks.evaluation.suites.adapt import ADAPT, CELLS, MINI, MINI_ADAPT
from benchmarks.evaluation.suites.panels import full_name, named_panel
from benchmarks.evaluation.suites.setting import Setting
from mage_envs.loading.arguments import nearest_name

Length = Literal[3, 10]
ProtocolName = Literal["adaptive", "paper"]
EPISODES: tuple[Length, ...] = get_args(Length)
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Panels that are each played at every length under every protocol."""

    about: str
    panels: tuple[str, ...]
    """Names without a size."""
    protocols: tuple[ProtocolName, ...] = PROTOCOLS
    lengths: tuple[Length, ...] = EPISODES
    """Numbers of episodes K."""
    sized: bool = True
    """False if the panels have sizes of their own."""


def setting_for(panel: str, **options: Any) -> Setting:
    """Return the setting of a named panel with options of its environment."""
    return Setting(named_panel(panel), full_name(panel), options)


SUITES: Mapping[str, Suite] = {
    "paper-table1": Suite(
        about="the five environments of the paper's main table",
        panels=("kuhn-paper", "tictactoe-mcts100", "alfworld-eval-in", "sokoban-eval-2box", "webshop-val"),
    ),
    "paper-ood": Suite(
        about="opponents and tasks that training never shows",
        panels=(
            "tictactoe-paper-unseen",
            "kuhn-paper-unseen",
            "sokoban-eval-1box",
            "sokoban-eval-3box",
            "alfworld-eval-out",
            "webshop-ood-type",
            "webshop-ood-phrase",
            "webshop-ood-catalogue",
        ),
    ),
    "paper-ablations": Suite(
        about="the populations of the paper's ablations: fixed, balanced, skewed; the anchor is the trained model's",
        panels=("tictactoe-mcts100", "tictactoe-paper", "tictactoe-skewed"),
    ),
    "heldout": Suite(
        about="opponents and games that no preset trains on",
        panels=("kuhn-heldout", "tictactoe-heldout", "connectfour-search", "leduc-heldout"),
    ),
    "demo": Suite(
        about="what the demo's model trains against, and what it never meets",
        panels=("kuhn-train", "kuhn-heldout"),
    ),
    "adapt": Suite(
        about="the share of what memory of earlier episodes is worth, exact in every cell; and negative controls",
        panels=tuple(f"{ADAPT}{name}" for name in CELLS),
        protocols=PROTOCOLS[:1],
        lengths=EPISODES[:1],
        sized=False,
    ),
    "adapt-mini": Suite(
        about="the same in four small cells",
        panels=tuple(f"{MINI_ADAPT}{name}" for name in MINI),
        protocols=PROTOCOLS[:1],
        lengths=EPISODES[:1],
        sized=False,
    ),
}


def named_suite(name: str) -> Suite:
    """Return a suite of `SUITES`. Raise ValueError with the nearest name if it is unknown."""
    if name not in SUITES:
        raise ValueError(f"Unknown suite {name!r}.{nearest_name(name, SUITES)} Use {', '.join(SUITES)}.")
    return SUITES[name]


def reported() -> dict[str, Any]:
    """Return the paper's scores (`reported.json`) with their protocol and number of episodes."""
    text = files("benchmarks.evaluation.suites").joinpath("reported.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def is_reported_at(protocol: Any, episodes: int) -> bool:
    """Return True if the paper measured at this protocol and this number of episodes.

    Scores of another protocol or length would look comparable next to a run, but they are not.
    """
    told = reported()
    return bool(protocol == told["protocol"] and episodes == told["episodes"])
