"""Golden playthroughs: one hand of each game with texts of its own, seen by both players, compared byte for byte.

`python -m tests.games.openspiel.test_golden --write` writes them again. Read them as a model would before you commit
them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mage_envs.registry import make_game

FOLDER = Path(__file__).parent / "golden"
HANDS = {
    "LeducPoker": (2, {}),
    "ConnectFour": (1, {"rows": 4, "columns": 4}),
    "LiarsDice": (3, {}),
    "Negotiation": (1, {}),
    "Breakthrough": (1, {"rows": 5, "columns": 4}),
    "OpenSpiel": (4, {"game": "goofspiel(num_cards=3)"}),
}
"""Game to the seed and the options."""


def playthrough(name: str) -> str:
    """The rules, and every turn of one hand of random play."""
    seed, options = HANDS[name]
    game, rng = make_game(name, **options), np.random.default_rng(seed)
    state = game.initial_state(rng)
    parts = [game.spec.rules]
    while (player := state.player) is not None:
        legal = state.legal_actions
        action = legal[int(rng.integers(len(legal)))]
        listed_actions = " | ".join(legal[:8]) + (f" | ... ({len(legal)} in all)" if len(legal) > 8 else "")
        parts.append(f"[player {player} sees]\n{state.observation(player)}\n[legal] {listed_actions}\n[plays] {action}")
        state = state.after(action)
    seats = range(game.spec.players)
    parts.extend(f"[player {seat} sees at the end]\n{state.observation(seat)}" for seat in seats)
    return "\n\n".join([*parts, f"[returns] {state.returns}"]) + "\n"


@pytest.mark.parametrize("name", HANDS)
def test_playthrough(name: str) -> None:
    assert playthrough(name) == (FOLDER / f"{name}.txt").read_text("utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FOLDER.mkdir(exist_ok=True)
    for hand in HANDS:
        (FOLDER / f"{hand}.txt").write_text(playthrough(hand), "utf-8")
