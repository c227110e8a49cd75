"""The repeated inspection game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import Round, RoundsGame, StageGame, together
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings

WORTH: Mapping[str, int] = {"vault": 5, "gallery": 4, "archive": 3, "garage": 2, "garden": 1}
"""Place to its value for an attacker."""
PLACES = tuple(WORTH)
MAX_PAYOFF = max(WORTH.values())


@dataclass(frozen=True)
class InspectionRound(StageGame):
    """One round. `first` is the inspected place, `second` the place of the break-in."""

    rounds: int
    choices = (PLACES, PLACES)

    def payoffs(self, outcome: Round) -> tuple[float, float]:
        # Both returns are in [0, 1], so that they compare between the seats.
        caught = outcome.first_choice == outcome.second_choice
        return (1.0, 0.0) if caught else (0.0, WORTH[outcome.second_choice] / MAX_PAYOFF)

    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        # The defender learns the place of a break-in only from a catch, so its word has no place.
        caught = "caught" if outcome.first_choice == outcome.second_choice else "quiet"
        return (outcome.second_choice, f"opp-{outcome.first_choice}") if seat else (outcome.first_choice, caught)

    def line(self, outcome: Round, seat: int) -> str:
        caught = outcome.first_choice == outcome.second_choice
        if seat == 0:
            result = "the attacker is caught there" if caught else "nobody is there"
            return f"you inspect the {outcome.first_choice}: {result}."
        gain = "you are caught" if caught else f"you gain {WORTH[outcome.second_choice]}"
        return f"you break into the {outcome.second_choice}, the {outcome.first_choice} is inspected: {gain}."

    def question(self, seat: int) -> str:
        return "Which place do you break into?" if seat else "Which place do you inspect?"

    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        caught = sum(outcome.first_choice == outcome.second_choice for outcome in outcomes)
        if seat == 0:
            return f"the attacker was caught {together([caught], 'time')}."
        gains = [WORTH[outcome.second_choice] for outcome in outcomes if outcome.first_choice != outcome.second_choice]
        return f"you gained {sum(gains)}."

    def won(self, mean: float, seat: int) -> bool:
        return mean >= 0.5


NEUTRAL = {
    "Inspection game": "Game",
    "defender": "opener",
    "attacker": "visitor",
    "inspect": "open",
    "inspects": "opens",
    "inspected": "opened",
    "break into": "enter",
    "breaks into": "enters",
    "catch": "meet",
    "catch per round": "meeting per round",
    "catches per round": "meetings per round",
    "caught": "met",
    "vault": "circle",
    "gallery": "square",
    "archive": "star",
    "garage": "cross",
    "garden": "wave",
}
"""Words for the style `neutral`."""


def _facts(rounds: int) -> GameSpec:
    worth = ", ".join(f"the {name} {value}" for name, value in WORTH.items())
    return GameSpec(
        name="Inspection",
        rules=(
            f"Inspection game, {rounds} round{'s' * (rounds != 1)}. In each round the first player, the defender, "
            "inspects one of five places, and the second player, the attacker, breaks into one of them, both at the "
            "same time. In the same place, the attacker is caught; otherwise the attacker gains what it is worth: "
            f"{worth}. The defender learns only whether somebody was caught; the attacker learns which place was "
            "inspected. As the defender, catch the attacker as often as you can; as the attacker, gain as much as you "
            "can."
        ),
        unit="catches per round",
        general_sum=True,
        min_return=0.0,
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * rounds,
        actions=PLACES,
        neutral=NEUTRAL,
    )


class Inspection(RoundsGame):
    """The inspection game in three rounds: the learner watches five places for an attacker.

    Rules: in each of 3 rounds the defender (first seat) inspects one of five places. At the same time, the attacker
    (second seat) breaks into one. If both choose the same place, the attacker is caught. Otherwise the attacker gains
    the value of the place: vault 5, gallery 4, archive 3, garage 2, garden 1. Only an inspection reveals something: the
    defender sees if there was a catch, but never the place of another break-in. The attacker sees the inspected place.

    Actions: the name of a place.

    Observation: the finished rounds as the player knows them. The learner is the defender by default.

    Returns: the defender's return is the share of rounds with a catch. The attacker's is the mean gain, divided by the
    value of the vault.

    Success: a return of at least 0.5, for the defender a catch in half of the rounds.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 3).
    """

    spec = _facts(rounds=3)

    def __init__(self, rounds: int = 3) -> None:
        check_positive("rounds", rounds)
        super().__init__(_facts(rounds), InspectionRound(rounds))


SETTINGS = GameSettings(opponent="pool:inspect/habits", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="Inspection",
    entry_point=f"{__name__}:Inspection",
    settings=SETTINGS,
    opponents={"inspect": "mage_envs.opponents.games.inspection"},
)
