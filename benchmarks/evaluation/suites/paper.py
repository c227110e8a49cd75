"""Suites: groups of settings, and the paper's reported scores for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

from mage_envs.benchmarks.evaluation.suites.adapt import ADAPT, CELLS, LEARNING_CELLS, MINI, MINI_ADAPT
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.released import RELEASED
from mage_envs.benchmarks.evaluation.suites.setting import Setting
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


COMPARABLE = (
    "paper-tictactoe-mcts100",
    "paper-tictactoe-mcts1000",
    "paper-kuhn",
    "paper-kuhn-cfr-second",
    "paper-alfworld-seen",
    "paper-webshop",
)
"""Panels with the paper's own opponents, or with its data."""


def setting_for(panel: str, **options: Any) -> Setting:
    """Return the setting of a named panel with options of its environment."""
    return Setting(named_panel(panel), full_name(panel), options)


def _paper_suite(about: str, *panels: str) -> Suite:
    """Return a suite that is played as the paper evaluates: K = 10 under its protocol."""
    return Suite(about=about, panels=panels, protocols=("paper",), lengths=(10,))


SUITES: Mapping[str, Suite] = {
    "paper-table1": _paper_suite(
        "the five environments of the paper's main table",
        "paper-kuhn",
        "paper-tictactoe-mcts100",
        "paper-alfworld-seen",
        "paper-sokoban-2box",
        "paper-webshop",
    ),
    "paper-ood": _paper_suite(
        "opponents and tasks that training never shows",
        "paper-tictactoe-mcts1000",
        "paper-kuhn-cfr",
        "paper-kuhn-cfr-second",
        "paper-sokoban-1box",
        "paper-sokoban-3box",
        "paper-alfworld-unseen",
        "webshop-ood-type",
        "webshop-ood-phrase",
        "webshop-ood-catalogue",
    ),
    "paper-ablations": _paper_suite(
        "the panels on which the paper evaluates its ablations: 4.4.1, 4.4.2 and 4.4.3",
        "paper-alfworld-seen",
        "paper-webshop",
        "paper-tictactoe-mcts100",
        "paper-tictactoe-mcts1000",
        "paper-kuhn-cfr",
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
    "adapt-learning": Suite(
        about="the same against opponents that learn or change",
        panels=tuple(f"{ADAPT}{name}" for name in LEARNING_CELLS),
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


def load_reported_scores() -> dict[str, Any]:
    """Return the paper's scores (`reported.json`) with their protocol and number of episodes."""
    text = files("mage_envs.benchmarks.evaluation.suites").joinpath("reported.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def find_released_panel(name: str, fingerprint: str, memory: Any, context: Any) -> str | None:
    """Return the panel of the paper that a run played whole and under the released options, or None.

    Memory and context are free, because they are the method that is measured.

    Args:
        name: Name of the run's panel with its size.
        fingerprint: Fingerprint of the run's setting.
        memory: Memory of the run.
        context: Context of the run.
    """
    base = name.rpartition("-")[0]
    if base not in RELEASED or name != full_name(base):
        return None
    try:
        released = setting_for(base, memory=memory, context=context)
        return base if released.fingerprint == fingerprint else None
    # Data that are absent here, or a memory that copies from another run. Neither can be compared.
    except (ImportError, ValueError, OSError):
        return None


def find_reported_panel(name: str, fingerprint: str, memory: Any, context: Any) -> str | None:
    """Return the panel whose reported scores may be shown next to a run without a remark, or None.

    The arguments are those of `find_released_panel`. Rooms of Sokoban come from another generator than the paper's, so
    only the table of `mage paper`, which marks them, shows both.
    """
    base = find_released_panel(name, fingerprint, memory, context)
    return base if base in COMPARABLE else None
