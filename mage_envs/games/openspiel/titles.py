"""The games of OpenSpiel that have ids of their own; see each one's rules for what is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage_envs.core import EpisodeReward, HandResult, outcome_reward
from mage_envs.games.kuhn_poker import chips_reward, mean_chips_reward
from mage_envs.games.openspiel.game import OpenSpiel


def mean_points_reward(hands: Sequence[HandResult], planned: int) -> float:
    """Mean points per hand, unplayed hands counting nothing."""
    return sum(hand.value for hand in hands) / planned


class LeducPoker(OpenSpiel):
    """Leduc Poker of two players; cards of one rank are the same card, as they are for the game."""

    name = "LeducPoker"
    rewards: Mapping[str, EpisodeReward] = {  # type: ignore[misc]
        "task": mean_chips_reward,
        "released": chips_reward,
        "sign": outcome_reward,
    }
    max_turns = 8

    def __init__(self) -> None:
        super().__init__("leduc_poker(suit_isomorphism=True)")


class ConnectFour(OpenSpiel):
    """Connect Four on a board of `rows` and `columns`."""

    name = "ConnectFour"
    perfect_information = True
    max_turns = 30

    def __init__(self, rows: int = 6, columns: int = 7) -> None:
        super().__init__(f"connect_four(rows={rows},columns={columns})")


class LiarsDice(OpenSpiel):
    """Liar's Dice of two players with `dice` dice of `sides` faces each."""

    name = "LiarsDice"
    max_turns = 20

    def __init__(self, dice: int = 1, sides: int = 6) -> None:
        super().__init__(f"liars_dice(numdice={dice},dice_sides={sides})")


class Negotiation(OpenSpiel):
    """Two players share out a pool of items that they value differently: OpenSpiel's bargaining."""

    name = "Negotiation"
    min_return = 0.0
    max_return = 10.0
    rewards: Mapping[str, EpisodeReward] = {  # type: ignore[misc]
        "task": mean_points_reward,
        "released": mean_points_reward,
        "sign": outcome_reward,
    }
    max_turns = 8

    def __init__(self) -> None:
        super().__init__("bargaining")


class Breakthrough(OpenSpiel):
    """Breakthrough on a board of `rows` and `columns`."""

    name = "Breakthrough"
    perfect_information = True
    max_turns = 120

    def __init__(self, rows: int = 8, columns: int = 8) -> None:
        super().__init__(f"breakthrough(rows={rows},columns={columns})")
