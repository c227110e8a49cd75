"""The games of OpenSpiel with their own ids. The rules of each game describe its play.

Versions: v0 for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.core import GameSpec, HandResult
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.settings import GameSettings, five_times_total, mean_reward, outcome_reward


class LeducPoker(OpenSpiel):
    """Leduc Poker for two players."""

    spec = GameSpec(name="LeducPoker", rules="Leduc Poker.", unit="chips", max_turns=8)

    def __init__(self) -> None:
        # Suits never matter in Leduc Poker. Merging them makes equal information states equal, and the tree smaller.
        super().__init__("leduc_poker(suit_isomorphism=True)")


class ConnectFour(OpenSpiel):
    """Connect Four on a board of `rows` and `columns`."""

    spec = GameSpec(name="ConnectFour", rules="Connect Four.", perfect_information=True, max_turns=30)

    def __init__(self, rows: int = 6, columns: int = 7) -> None:
        super().__init__(f"connect_four(rows={rows},columns={columns})")


class LiarsDice(OpenSpiel):
    """Liar's Dice for two players with `dice` dice of `sides` faces each."""

    spec = GameSpec(name="LiarsDice", rules="Liar's Dice.", max_turns=20)

    def __init__(self, dice: int = 1, sides: int = 6) -> None:
        super().__init__(f"liars_dice(numdice={dice},dice_sides={sides})")
        self.dice, self.sides = dice, sides


class Negotiation(OpenSpiel):
    """OpenSpiel's bargaining: two players divide a pool of items that they value differently."""

    spec = GameSpec(name="Negotiation", rules="Negotiation.", max_turns=8)

    def __init__(self) -> None:
        super().__init__("bargaining")


class Breakthrough(OpenSpiel):
    """Breakthrough on a board of `rows` and `columns`."""

    spec = GameSpec(name="Breakthrough", rules="Breakthrough.", perfect_information=True, max_turns=120)

    def __init__(self, rows: int = 8, columns: int = 8) -> None:
        super().__init__(f"breakthrough(rows={rows},columns={columns})")


def mean_points(hands: Sequence[HandResult], planned: int) -> float:
    """Return the mean points per planned hand. A hand that was not played counts 0."""
    return sum(hand.value for hand in hands) / planned


LEDUC = GameSettings(rewards={"task": mean_reward, "released": five_times_total, "sign": outcome_reward})
NEGOTIATION = GameSettings(rewards={"task": mean_points, "released": mean_points, "sign": outcome_reward})
