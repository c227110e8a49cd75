"""Repeated rock, paper, scissors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import Round, RoundsGame, StageGame
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings, outcome_reward

CHOICES = ("rock", "paper", "scissors")
BEATEN_BY: Mapping[str, str] = {"rock": "paper", "paper": "scissors", "scissors": "rock"}
"""Choice to the choice that beats it."""


@dataclass(frozen=True)
class Throw(StageGame):
    """One round of rock, paper, scissors."""

    rounds: int
    choices = (CHOICES, CHOICES)
    spellings = {choice: (choice[0],) for choice in CHOICES}  # noqa: RUF012  (a constant of the class)

    def payoffs(self, outcome: Round) -> tuple[float, float]:
        if outcome.first_choice == outcome.second_choice:
            return 0.0, 0.0
        return (-1.0, 1.0) if BEATEN_BY[outcome.first_choice] == outcome.second_choice else (1.0, -1.0)

    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        own_choice, other_choice = outcome.of(seat)
        return own_choice, f"opp-{other_choice}"

    def line(self, outcome: Round, seat: int) -> str:
        own_choice, other_choice = outcome.of(seat)
        result = {1.0: "you win", 0.0: "a draw", -1.0: "you lose"}[self.payoffs(outcome)[seat]]
        return f"you choose {own_choice}, the other player {other_choice}: {result}."

    def question(self, seat: int) -> str:
        return "The other player chooses at the same time as you. Rock, paper or scissors?"

    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        paid = [self.payoffs(outcome)[seat] for outcome in outcomes]
        return f"{paid.count(1)} won, {paid.count(-1)} lost, {paid.count(0)} drawn."


NEUTRAL = {
    "Rock, paper, scissors": "Game",
    "rock, paper, scissors": "the game of colours",
    "rock": "red",
    "paper": "green",
    "scissors": "blue",
}
"""Words for the style `neutral`."""


def _facts(rounds: int) -> GameSpec:
    return GameSpec(
        name="RockPaperScissors",
        rules=(
            f"Rock, paper, scissors, {rounds} round{'s' * (rounds != 1)}. In each round both players choose at the "
            "same time, without knowing the other's choice. Rock beats scissors, scissors beats paper, paper beats "
            "rock; equal choices are a draw. After each round both see what was chosen. Win more rounds than you lose, "
            "and as many more as you can."
        ),
        unit="rounds won per round",
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * rounds,
        actions=CHOICES,
        neutral=NEUTRAL,
    )


class RockPaperScissors(RoundsGame):
    """Rock, paper, scissors in four rounds.

    Rules: in each of 4 rounds both players choose at the same time. Rock beats scissors, scissors beats paper, paper
    beats rock. Equal choices are a draw. After a round both players see its choices.

    Actions: `rock`, `paper`, `scissors`. `r`, `p` and `s` are accepted too.

    Observation: the finished rounds with their results, and the number of the round. Both seats have the same view. The
    learner plays the first seat by default.

    Returns: (rounds won - rounds lost) / rounds.

    Success: more rounds won than lost.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 4).
    """

    spec = _facts(rounds=4)

    def __init__(self, rounds: int = 4) -> None:
        check_positive("rounds", rounds)
        super().__init__(_facts(rounds), Throw(rounds))


SETTINGS = GameSettings(opponent="pool:rps/reactive", seat="first", rewards={**PAID_BY_RETURN, "sign": outcome_reward})

RECORD = GameRecord(
    name="RockPaperScissors",
    entry_point=f"{__name__}:RockPaperScissors",
    settings=SETTINGS,
    opponents={"rps": "mage_envs.opponents.games.rock_paper_scissors"},
)
