"""Machinery of games in which both players choose at the same time, round after round.

"At the same time" means that the first seat acts first, and that its choice is hidden until the second seat has acted.
A return is a mean per round, so that games of few and of many rounds have the same scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.games.table_game import GrownState, Origin, TableGame


class Round(NamedTuple):
    """The outcome of one round."""

    first_choice: str
    second_choice: str
    slipped: bool = False
    """True if noise replaced the choice of the second seat with its opposite."""
    signal: str = ""
    """What the first seat learns of the second seat's choice, in games in which chance decides that."""

    def of(self, seat: int) -> tuple[str, str]:
        """Return (own choice, the other player's choice) for a seat."""
        return (self.second_choice, self.first_choice) if seat else (self.first_choice, self.second_choice)


class StageGame(ABC):
    """The game of one round, and its texts.

    A subclass is a frozen dataclass, because equal stages share their states.
    """

    rounds: int
    choices: tuple[tuple[str, ...], tuple[str, ...]]
    """Actions of each seat."""
    spellings: Mapping[str, Sequence[str]] = {}

    def result(self, number: int, choices: tuple[str, str], deal: Hashable) -> Round:
        """Return the outcome of a round.

        Args:
            number: Index of the round, from 0.
            choices: Choices of the first and of the second seat.
            deal: Chance of the hand, as `RoundsGame` lists it.
        """
        return Round(*choices)

    @abstractmethod
    def payoffs(self, outcome: Round) -> tuple[float, float]:
        """Return the payoff of the round for each seat."""

    @abstractmethod
    def words(self, outcome: Round, seat: int) -> tuple[str, ...]:
        """Return a player's view of a finished round, as a few words of a fixed vocabulary."""

    @abstractmethod
    def line(self, outcome: Round, seat: int) -> str:
        """Return a player's view of a finished round, as prose that follows `Round 1: `."""

    @abstractmethod
    def question(self, seat: int) -> str:
        """Return the request for a choice, which follows `Round 1 of 5: `."""

    @abstractmethod
    def verdict(self, outcomes: Sequence[Round], seat: int) -> str:
        """Return the player's result of the hand, which follows `The 5 rounds are over: `."""

    def is_over(self, outcomes: Sequence[Round]) -> bool:
        """Return True if the hand ends after these rounds (default: after all of them)."""
        return len(outcomes) == self.rounds

    def start_words(self, seat: int) -> tuple[str, ...]:
        """Return the words before the first round: the role, if the seats have different actions.

        Policies with a table look up their play by information state, so equal keys must have equal actions.
        """
        return ()

    def end_words(self, outcomes: Sequence[Round], seat: int) -> tuple[str, ...]:
        """Return what a player learns at the end of a hand beyond its view of the rounds, as a few words."""
        return ()

    def picture(self, outcomes: Sequence[Round], seat: int, over: bool) -> Picture:
        """Return a player's view of the hand as a picture. Raise TypeError if the game has no pictures.

        Args:
            seat: Player that sees the picture.
        """
        raise TypeError(f"{type(self).__name__} has no picture; it is shown as text alone.")

    def won(self, mean: float, seat: int) -> bool:
        """Return True if that mean per round is a success."""
        return mean > 0


class RoundsState(GrownState):
    """A point of a hand: the finished rounds, and the first seat's choice if the second seat has not chosen yet.

    An information state has the stage's words for each finished round. In an open round, it ends with the player's own
    choice.
    """

    def __init__(
        self, stage: StageGame, deal: Hashable, outcomes: tuple[Round, ...], open_choice: str | None, origin: Origin
    ) -> None:
        # `_key` reads these fields, so they must exist before the base class is initialized.
        self.stage, self.deal, self.outcomes, self.open_choice = stage, deal, outcomes, open_choice
        self.spellings = stage.spellings
        over = stage.is_over(outcomes)
        player = None if over else int(open_choice is not None)
        paid = [stage.payoffs(outcome) for outcome in outcomes]
        super().__init__(
            player,
            (
                sum(first_payoff for first_payoff, _ in paid) / stage.rounds,
                sum(second_payoff for _, second_payoff in paid) / stage.rounds,
            )
            if over
            else (0.0, 0.0),
            keys=(self._key(0, over), self._key(1, over)),
            legal_actions=() if player is None else stage.choices[player],
            origin=origin,
        )

    def follower(self, action: str) -> RoundsState:
        if self.open_choice is None:
            return RoundsState(
                stage=self.stage,
                deal=self.deal,
                outcomes=self.outcomes,
                open_choice=action,
                origin=self.origin.then(action),
            )
        outcome = self.stage.result(len(self.outcomes), (self.open_choice, action), self.deal)
        return RoundsState(
            stage=self.stage,
            deal=self.deal,
            outcomes=(*self.outcomes, outcome),
            open_choice=None,
            origin=self.origin.then(action),
        )

    def won(self, seat: int) -> bool:
        return self.stage.won(self.returns[seat], seat)

    def picture(self, seat: int) -> Picture:
        return self.stage.picture(self.outcomes, seat, self.player is None)

    def _key(self, seat: int, over: bool) -> str:
        words = [*self.stage.start_words(seat)]
        words += [word for outcome in self.outcomes for word in self.stage.words(outcome, seat)]
        if over:
            words += self.stage.end_words(self.outcomes, seat)
        # Only the first seat's key has the open choice. The second seat must not know it.
        return " ".join(words if seat or self.open_choice is None else [*words, self.open_choice])

    def tell(self, seat: int) -> str:
        stage = self.stage
        lines = [
            f"Round {number}: {stage.line(outcome, seat)}" for number, outcome in enumerate(self.outcomes, start=1)
        ]
        if self.player is None:
            count = f"The {stage.rounds} rounds are over" if stage.rounds > 1 else "The round is over"
            if len(self.outcomes) < stage.rounds:
                count = f"The hand is over after round {len(self.outcomes)}"
            return "\n".join([*lines, f"{count}: {stage.verdict(self.outcomes, seat)}"])
        # A waiting player has an observation too: the PettingZoo environment may request it.
        waits = self.player != seat
        prompt = f"you chose {self.open_choice}. " if waits and seat == 0 else ""
        prompt += "The other player is yet to choose." if waits else stage.question(seat)
        return "\n".join([*lines, f"Round {len(self.outcomes) + 1} of {stage.rounds}: {prompt}"])


# Cached by value, so that all environments with equal options share one tree of states.
@cache
def first_state(stage: StageGame, deal: Hashable) -> RoundsState:
    """Return the shared first state of hands with that deal."""
    return RoundsState(stage=stage, deal=deal, outcomes=(), open_choice=None, origin=Origin(first_state, (stage, deal)))


class RoundsGame(TableGame):
    """A game of rounds."""

    def __init__(
        self, spec: GameSpec, stage: StageGame, deals: Sequence[tuple[float, Hashable]] = ((1.0, None),)
    ) -> None:
        """Build the game.

        Args:
            stage: Game of one round.
            deals: Probability and value of each deal of chance. `stage.result` receives the value.
        """
        self.spec = spec
        self.stage = stage
        super().__init__([(chance, first_state(stage, deal)) for chance, deal in deals])


def together(numbers: Sequence[float], name: str) -> str:
    """Return a sum with its unit, such as `14 points`."""
    total = sum(numbers)
    return f"{total:g} {name}{'s' * (total != 1)}"
