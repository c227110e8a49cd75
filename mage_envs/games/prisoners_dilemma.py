"""The repeated prisoner's dilemma.

Rules: in each of 5 rounds both players choose at the same time to cooperate or to defect. Both cooperate: 3 points
each; both defect: 1 each; one defects alone: 5 for that one, 0 for the other. After a round both see its choices. With
`noise` the choice of the second seat comes out as the opposite with that probability, in each round anew, and both see
what came out; only who chose knows what was meant.
Actions: `cooperate`, `defect`; `c` and `d` are accepted too.
Observation: the rounds so far with their points, and the number of the round. Seats differ by `noise` alone; the
learner sits first where nothing else is said.
Returns: the mean of the points per round.
Success: at least as many points as mutual cooperation throughout would have brought.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mage_envs.checks import check_positive
from mage_envs.core import GameFacts
from mage_envs.drawing import Picture
from mage_envs.drawing import payoffs as drawing
from mage_envs.games.rounds import Round, RoundsGame, StageGame, together
from mage_envs.settings import PAID_BY_RETURN, GameSettings

COOPERATE, DEFECT = "cooperate", "defect"
OPPOSITE: Mapping[str, str] = {COOPERATE: DEFECT, DEFECT: COOPERATE}
_WITH_NOISE = 10
"""Most rounds with noise: each doubles the number of deals."""


@dataclass(frozen=True)
class Dilemma(StageGame):
    """One round; `payoffs_of` holds what a player gets by both choices, its own first."""

    rounds: int
    reward: float
    sucker: float
    temptation: float
    punishment: float
    noisy: bool = False
    choices = ((COOPERATE, DEFECT), (COOPERATE, DEFECT))
    spellings = {COOPERATE: ("c",), DEFECT: ("d",)}  # noqa: RUF012  (a constant of the class)

    def result(self, number: int, choices: tuple[str, str], deal: object) -> Round:
        first, second = choices
        slips = isinstance(deal, tuple) and deal[number]
        return Round(first, OPPOSITE[second] if slips else second, slips)

    def payoffs(self, one: Round) -> tuple[float, float]:
        return self._points(one.first, one.second), self._points(one.second, one.first)

    def _points(self, own: str, other: str) -> float:
        if own == COOPERATE:
            return self.reward if other == COOPERATE else self.sucker
        return self.temptation if other == COOPERATE else self.punishment

    def words(self, one: Round, seat: int) -> tuple[str, ...]:
        own, other = one.of(seat)
        return ("slipped", own, f"opp-{other}") if seat and one.slipped else (own, f"opp-{other}")

    def line(self, one: Round, seat: int) -> str:
        own, other = one.of(seat)
        meant = f" (you had chosen {OPPOSITE[own]})" if seat and one.slipped else ""
        points = self.payoffs(one)
        return (
            f"you {own}{meant}, the other player {other}s: {together([points[seat]], 'point')} for you, "
            f"{points[1 - seat]:g} for the other."
        )

    def question(self, seat: int) -> str:
        place = f"You are the {('first', 'second')[seat]} player. " if self.noisy else ""
        return f"{place}The other player chooses at the same time as you. Do you cooperate or defect?"

    def verdict(self, played: Sequence[Round], seat: int) -> str:
        points = [self.payoffs(one) for one in played]
        mine, others = ([pair[place] for pair in points] for place in (seat, 1 - seat))
        return f"{together(mine, 'point')} for you, {sum(others):g} for the other."

    def picture(self, played: Sequence[Round], seat: int, over: bool) -> Picture:
        history = [one.of(seat) for one in played]
        points = [[(self._points(own, other), self._points(other, own)) for other in OPPOSITE] for own in OPPOSITE]
        words = tuple(OPPOSITE)
        return drawing.table(
            words,
            points,
            (words.index(history[-1][0]), words.index(history[-1][1])) if history else None,
            [(own[0], other[0]) for own, other in history],
            self.verdict(played, seat).rstrip(".") if over else f"Round {len(played) + 1} of {self.rounds}",
        )

    def won(self, mean: float, seat: int) -> bool:
        return mean >= self.reward - 1e-9


def _facts(stage: Dilemma, noise: float) -> GameFacts:
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
    return GameFacts(
        name="PrisonersDilemma",
        rules=rules,
        unit="points per round",
        min_return=float(min(points)),
        max_return=float(max(points)),
        max_turns=2 * stage.rounds,
        actions=(COOPERATE, DEFECT),
        has_pictures=True,
    )


class PrisonersDilemma(RoundsGame):
    """The repeated prisoner's dilemma; see the module's text for rules, actions, observation and returns.

    `payoffs`: points of a player where both cooperate, where it cooperates alone, where it defects alone, where both
    defect. Raises ValueError for options that make no game.
    """

    facts = _facts(Dilemma(rounds=5, reward=3, sucker=0, temptation=5, punishment=1), noise=0.0)

    def __init__(self, rounds: int = 5, noise: float = 0.0, payoffs: Sequence[float] = (3, 0, 5, 1)) -> None:
        check_positive("rounds", rounds)
        if not 0 <= noise < 1:
            raise ValueError(f"noise={noise!r} must be a probability below 1.")
        if noise and rounds > _WITH_NOISE:
            raise ValueError(f"rounds={rounds} with noise are too many: at most {_WITH_NOISE}.")
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
        slips = product((False, True), repeat=rounds) if noise else ()
        deals = [(noise ** sum(one) * (1 - noise) ** (rounds - sum(one)), one) for one in slips]
        super().__init__(_facts(stage, noise), stage, deals or ((1.0, None),))


SETTINGS = GameSettings(opponent="pool:pd/classic", seat="first", rewards=PAID_BY_RETURN)
