"""Repeated matching pennies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import Round, RoundsGame, StageGame
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings, outcome_reward

CHOICES = ("heads", "tails")


@dataclass(frozen=True)
class Coins(StageGame):
    """One round of matching pennies."""

    rounds: int
    choices = (CHOICES, CHOICES)
    spellings = {choice: (choice[0],) for choice in CHOICES}  # noqa: RUF012  (a constant of the class)

    def payoffs(self, outcome: Round) -> tuple[float, float]:
        return (1.0, -1.0) if outcome.first_choice == outcome.second_choice else (-1.0, 1.0)

    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        own_choice, other_choice = outcome.of(seat)
        return own_choice, f"opp-{other_choice}"

    def line(self, outcome: Round, seat: int) -> str:
        own_choice, other_choice = outcome.of(seat)
        result = "you win" if self.payoffs(outcome)[seat] > 0 else "you lose"
        return f"you show {own_choice}, the other player {other_choice}: {result}."

    def question(self, seat: int) -> str:
        aim = ("You win if both coins are equal", "You win if the coins differ")[seat]
        return f"The other player chooses at the same time as you. {aim}. Heads or tails?"

    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        paid = [self.payoffs(outcome)[seat] for outcome in outcomes]
        return f"{paid.count(1)} won, {paid.count(-1)} lost."


NEUTRAL = {
    "Matching pennies": "Game",
    "matching pennies": "the game of sides",
    "coin": "token",
    "coins": "tokens",
    "heads": "left",
    "tails": "right",
}
"""Words for the style `neutral`."""


def _facts(rounds: int) -> GameSpec:
    return GameSpec(
        name="MatchingPennies",
        rules=(
            f"Matching pennies, {rounds} round{'s' * (rounds != 1)}. In each round both players show one side of a "
            "coin at the same time, without knowing the other's choice. The first player wins the round if both show "
            "the same side; otherwise the second player wins it. After each round both see what was shown. Win more "
            "rounds than you lose, and as many more as you can."
        ),
        unit="rounds won per round",
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * rounds,
        actions=CHOICES,
        neutral=NEUTRAL,
    )


class MatchingPennies(RoundsGame):
    """Matching pennies in three rounds.

    Rules: in each of 3 rounds both players show heads or tails at the same time. The first player wins the round if
    both show the same, otherwise the second player wins it. After a round both players see its choices.

    Actions: `heads`, `tails`. `h` and `t` are accepted too.

    Observation: the finished rounds with their results, and the number of the round. Both seats have the same view. The
    learner plays the first seat by default.

    Returns: (rounds won - rounds lost) / rounds.

    Success: more rounds won than lost.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 3).
    """

    spec = _facts(rounds=3)

    def __init__(self, rounds: int = 3) -> None:
        check_positive("rounds", rounds)
        super().__init__(_facts(rounds), Coins(rounds))


SETTINGS = GameSettings(
    opponent="pool:pennies/learners", seat="first", rewards={**PAID_BY_RETURN, "sign": outcome_reward}
)

RECORD = GameRecord(
    name="MatchingPennies",
    entry_point=f"{__name__}:MatchingPennies",
    settings=SETTINGS,
    opponents={"pennies": "mage_envs.opponents.games.matching_pennies"},
)
