"""Golden playthroughs: one hand of each told game, seen by both players, as text files compared byte for byte.

`python -m tests.games.openspiel.test_golden --write` writes them anew; read them as a model would before committing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mage_envs.registry import make_game

FOLDER = Path(__file__).parent / "golden"
HANDS = {
    "LeducPoker": (8, {}),
    "ConnectFour": (1, {"rows": 4, "columns": 4}),
    "LiarsDice": (3, {}),
    "Negotiation": (2, {}),
    "Breakthrough": (1, {"rows": 5, "columns": 4}),
    "OpenSpiel": (4, {"game": "goofspiel(num_cards=3)"}),
}
"""Game to the seed and the options."""


def playthrough(name: str) -> str:
    """The rules, and every turn of one hand of random play."""
    seed, options = HANDS[name]
    game, rng = make_game(name, **options), np.random.default_rng(seed)
    game.reset(rng)
    parts = [game.rules]
    while (player := game.current_player()) is not None:
        legal = game.legal_actions()
        action = legal[int(rng.integers(len(legal)))]
        shown = " | ".join(legal[:8]) + (f" | ... ({len(legal)} in all)" if len(legal) > 8 else "")
        parts.append(f"[player {player} sees]\n{game.observe(player)}\n[legal] {shown}\n[plays] {action}")
        game.apply(action)
    parts.extend(f"[player {player} sees at the end]\n{game.observe(player)}" for player in range(game.num_players))
    return "\n\n".join([*parts, f"[returns] {game.returns()}"]) + "\n"


@pytest.mark.parametrize("name", HANDS)
def test_playthrough(name: str) -> None:
    assert playthrough(name) == (FOLDER / f"{name}.txt").read_text("utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FOLDER.mkdir(exist_ok=True)
    for each in HANDS:
        (FOLDER / f"{each}.txt").write_text(playthrough(each), "utf-8")
