"""The paper's panels as data: 128 tasks, the learner in one seat, and the options of its released evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

SIZE = 128
"""Tasks of each of the paper's evaluations."""
OPTIONS: Mapping[str, Any] = {"protocol": "paper", "num_episodes": 10, "style": "paper"}
"""Options of the evaluations. The style lists no legal actions in the games whose prompts in the paper have none."""
ARCHETYPES = {"kuhn/conservative": 38.0, "kuhn/aggressive": 38.0, "kuhn/intermediate": 52.0}
"""Tasks against each opponent in Kuhn Poker: .3, .3 and .4 of 128."""
MCTS100, MCTS1000, CFR = {"mcts:100": 1.0}, {"mcts:1000": 1.0}, {"cfr-argmax": 1.0}
ALFWORLD, WEBSHOP = "ALFWORLD_DATA", "WEBSHOP_DATA"
"""Environment variables that name the folders of the original data."""
TABLE, UNSEEN = "the paper's table", "the paper's evaluation out of distribution"
Fields = tuple[str, Mapping[str, Any]]
"""Name of the game, and the fields of the panel."""


def _panel(game: str, seed: int, about: str, options: Mapping[str, Any], **fields: Any) -> Fields:
    """Return the fields of a panel. All panels have the same size and default options."""
    shared = {"env_id": f"mage/{game}-Meta-v0", "size": SIZE, "sizes": (SIZE,), "defaults": OPTIONS}
    return game, {**shared, "seed": seed, "about": about, "env_kwargs": options, **fields}


def _against(
    opponents: Mapping[str, float], game: str, seed: int, about: str, seat: Literal["first", "second"] = "first"
) -> Fields:
    """Return the fields of a panel of a game with opponents."""
    seats = (int(seat == "second"),)
    return _panel(game, seed, about, {"seat": seat}, opponents=opponents, seats=seats, by_weight=True)


def _rooms(boxes: int, seed: int, about: str) -> Fields:
    noun = "box" if boxes == 1 else "boxes"
    return _panel("Sokoban", seed, f"{about}: {boxes} {noun}, in rooms of our generator", {"boxes": boxes})


def _alfworld_panel(split: str, seed: int, about: str, stand_in: str) -> Fields:
    options = {"split": split, "data": "official"}
    description = f"{about}, from the folder that {ALFWORLD} names"
    ids = "mage_envs.games.alfworld.about.panel_ids:task_ids"
    return _panel("ALFWorld", seed, description, options, variable=ALFWORLD, stand_in=stand_in, ids=ids)


RELEASED: Mapping[str, Fields] = {
    "paper-tictactoe-mcts100": _against(MCTS100, "TicTacToe", 60, f"{TABLE}: MCTS-100"),
    "paper-tictactoe-mcts1000": _against(MCTS1000, "TicTacToe", 61, f"{UNSEEN}: MCTS-1000"),
    "paper-kuhn": _against(ARCHETYPES, "KuhnPoker", 62, f"{TABLE}: three archetypes, 38, 38 and 52 tasks"),
    "paper-kuhn-cfr": _against(CFR, "KuhnPoker", 63, f"{UNSEEN}: CFR's arg-max, learner first"),
    "paper-kuhn-cfr-second": _against(
        CFR, "KuhnPoker", 64, f"{UNSEEN}: CFR's arg-max, learner second as in the released script", "second"
    ),
    "paper-sokoban-2box": _rooms(2, 65, TABLE),
    "paper-sokoban-1box": _rooms(1, 66, UNSEEN),
    "paper-sokoban-3box": _rooms(3, 67, UNSEEN),
    "paper-alfworld-seen": _alfworld_panel(
        "eval_in_distribution", 68, f"{TABLE}: official valid_seen games", "alfworld-eval-in"
    ),
    "paper-alfworld-unseen": _alfworld_panel(
        "eval_out_of_distribution", 69, f"{UNSEEN}: official valid_unseen games", "alfworld-eval-out"
    ),
    "paper-webshop": _panel(
        "WebShop",
        70,
        f"{TABLE}: original test goals, from the folder that {WEBSHOP} names",
        {"split": "test", "compat": True},
        variable=WEBSHOP,
        stand_in="webshop-val",
        ids="mage_envs.games.webshop.panel_ids:official_ids",
    ),
}
"""Name without the size to game and fields. The paper draws its tasks anew; these are fixed."""
