"""The repeated prisoner's dilemma."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import Round, RoundsGame, StageGame, together
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings

COOPERATE, DEFECT = "cooperate", "defect"
OPPOSITE: Mapping[str, str] = {COOPERATE: DEFECT, DEFECT: COOPERATE}
_WITH_NOISE = 10
"""Maximum rounds with noise, because each round doubles the number of deals."""


@dataclass(frozen=True)
class Dilemma(StageGame):
    """One round of the prisoner's dilemma, with the four payoffs of a player by their usual names.

    Mutual cooperation pays `reward` and mutual defection `punishment`. If only one player defects, it gets `temptation`
    and the other one `sucker`.
    """

    rounds: int
    reward: float
    sucker: float
    temptation: float
    punishment: float
    noisy: bool = False
    choices = ((COOPERATE, DEFECT), (COOPERATE, DEFECT))
    spellings = {COOPERATE: ("c",), DEFECT: ("d",)}  # noqa: RUF012  (a constant of the class)

    def result(self, number: int, choices: tuple[str, str], deal: object) -> Round:
        first_choice, second_choice = choices
        # A deal fixes in advance which rounds slip. So all chance is in the first state, and exact solvers can use the
        # game.
        slips = isinstance(deal, tuple) and deal[number]
        return Round(first_choice, OPPOSITE[second_choice] if slips else second_choice, slips)

    def payoffs(self, outcome: Round) -> tuple[float, float]:
        first_choice, second_choice = outcome.of(0)
        return self._points(first_choice, second_choice), self._points(second_choice, first_choice)

    def _points(self, own_choice: str, other_choice: str) -> float:
        if own_choice == COOPERATE:
            return self.reward if other_choice == COOPERATE else self.sucker
        return self.temptation if other_choice == COOPERATE else self.punishment

    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        own_choice, other_choice = outcome.of(seat)
        return (
            ("slipped", own_choice, f"opp-{other_choice}")
            if seat and outcome.slipped
            else (own_choice, f"opp-{other_choice}")
        )

    def line(self, outcome: Round, seat: int) -> str:
        own_choice, other_choice = outcome.of(seat)
        meant = f" (you had chosen {OPPOSITE[own_choice]})" if seat and outcome.slipped else ""
        points = self.payoffs(outcome)
        return (
            f"you {own_choice}{meant}, the other player {other_choice}s: {together([points[seat]], 'point')} for you, "
            f"{points[1 - seat]:g} for the other."
        )

    def question(self, seat: int) -> str:
        introduction = f"You are the {('first', 'second')[seat]} player. " if self.noisy else ""
        return f"{introduction}The other player chooses at the same time as you. Do you cooperate or defect?"

    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        points = [self.payoffs(outcome) for outcome in outcomes]
        mine, others = ([pair[player] for pair in points] for player in (seat, 1 - seat))
        return f"{together(mine, 'point')} for you, {sum(others):g} for the other."

    def picture(self, outcomes: Sequence[Round], seat: int, over: bool) -> Picture:
        # Imported here, because most hands are played without pictures.
        from mage_envs.drawing import payoffs as drawing

        history = [outcome.of(seat) for outcome in outcomes]
        # Both axes of the table list the actions in the order of `OPPOSITE`.
        points = [
            [
                (self._points(own_choice, other_choice), self._points(other_choice, own_choice))
                for other_choice in OPPOSITE
            ]
            for own_choice in OPPOSITE
        ]
        words = tuple(OPPOSITE)
        return drawing.table(
            words,
            points,
            (words.index(history[-1][0]), words.index(history[-1][1])) if history else None,
            [(own_choice[0], other_choice[0]) for own_choice, other_choice in history],
            self.verdict(outcomes, seat).rstrip(".") if over else f"Round {len(outcomes) + 1} of {self.rounds}",
        )

    def won(self, mean: float, seat: int) -> bool:
        # The mean is a sum divided by the rounds, so it can be a rounding error below the reward.
        return mean >= self.reward - 1e-9


NEUTRAL = {
    "Prisoner's dilemma": "Game",
    "cooperate": "go left",
    "cooperates": "goes left",
    "cooperated": "went left",
    "cooperating": "going left",
    "defect": "go right",
    "defects": "goes right",
    "defected": "gone right",
    "defecting": "going right",
}
"""Words for the style `neutral`."""


def _facts(stage: Dilemma, noise: float) -> GameSpec:
    rules = (
        f"Prisoner's dilemma, {stage.rounds} round{'s' * (stage.rounds != 1)}. In each round both players choose at "
        "the same time, without knowing the other's choice, to cooperate or to defect. If both cooperate, each gets "
        f"{together([stage.reward], 'point')}; if both defect, each gets {stage.punishment:g}; if one defects alone, "
        f"that one gets {stage.temptation:g} and the other {stage.sucker:g}. After each round both see what was "
        "chosen. "
    )
    if noise:
        rules += (
            f"In each round, with a probability of {noise:.0%}, the second player's choice comes out as the opposite "
            "of what was meant; both then see what came out. "
        )
    rules += "Get as many points as you can; how many the other player gets does not matter."
    points = (stage.reward, stage.sucker, stage.temptation, stage.punishment)
    return GameSpec(
        name="PrisonersDilemma",
        rules=rules,
        unit="points per round",
        general_sum=True,
        min_return=float(min(points)),
        max_return=float(max(points)),
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * stage.rounds,
        actions=(COOPERATE, DEFECT),
        neutral=NEUTRAL,
        has_pictures=True,
    )


class PrisonersDilemma(RoundsGame):
    """The prisoner's dilemma in five rounds, returns in points per round.

    Rules: in each of 5 rounds both players choose at the same time to cooperate or to defect. If both cooperate, each
    gets 3 points. If both defect, each gets 1. If only one defects, it gets 5 and the other gets 0. After a round both
    players see its choices. With `noise`, the choice of the second seat is replaced with its opposite with that
    probability, independently in each round. Both players see the replaced choice. Only the second seat knows the
    original one.

    Actions: `cooperate`, `defect`. `c` and `d` are accepted too.

    Observation: the finished rounds with their points, and the number of the round. The seats differ only with `noise`.
    The learner plays the first seat by default.

    Returns: the mean points per round.

    Success: at least as much as mutual cooperation.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 5), at most 10 with noise.
        noise: Probability of a replaced choice per round (default: 0).
        payoffs: Points of a player for mutual cooperation, lone cooperation, lone defection and mutual defection
            (default: 3, 0, 5, 1).

    Raises:
        ValueError: If an option is out of range.
    """

    spec = _facts(Dilemma(rounds=5, reward=3, sucker=0, temptation=5, punishment=1), noise=0.0)

    def __init__(self, rounds: int = 5, noise: float = 0.0, payoffs: Sequence[float] = (3, 0, 5, 1)) -> None:
        check_positive("rounds", rounds)
        if not 0 <= noise < 1:
            raise ValueError(f"noise={noise!r} must be a probability of at least 0 and below 1.")
        if noise and rounds > _WITH_NOISE:
            raise ValueError(f"rounds={rounds} must be at most {_WITH_NOISE} if there is noise.")
        if len(payoffs) != 4:
            raise ValueError(f"payoffs={payoffs!r} must be four numbers, as in (3, 0, 5, 1).")
        reward, sucker, temptation, punishment = payoffs
        stage = Dilemma(
            rounds=rounds,
            reward=reward,
            sucker=sucker,
            temptation=temptation,
            punishment=punishment,
            noisy=noise > 0,
        )
        # One deal per pattern of slips, with the probability of that pattern.
        slips = product((False, True), repeat=rounds) if noise else ()
        deals = [(noise ** sum(pattern) * (1 - noise) ** (rounds - sum(pattern)), pattern) for pattern in slips]
        super().__init__(_facts(stage, noise), stage, deals or ((1.0, None),))


SETTINGS = GameSettings(opponent="pool:pd/classic", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="PrisonersDilemma",
    entry_point=f"{__name__}:PrisonersDilemma",
    settings=SETTINGS,
    opponents={"pd": "mage_envs.opponents.games.prisoners_dilemma"},
)
