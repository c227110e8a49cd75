"""Games of rounds in which both players choose at the same time: what such games have in common.

At the same time means here that the first seat answers first, and that nobody is told of it before both have chosen.
A return is a mean per round, so that games of few and of many rounds compare.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from mage_envs.core import GameFacts
from mage_envs.drawing import Picture
from mage_envs.games.table import GrownState, Origin, TableGame


class Round(NamedTuple):
    """What came of the choices of a round."""

    first: str
    second: str
    slipped: bool = False
    """Whether the second seat meant the opposite."""

    def of(self, seat: int) -> tuple[str, str]:
        """That player's choice, and the other's."""
        return (self.second, self.first) if seat else (self.first, self.second)


class StageGame(ABC):
    """The game of one round, and how it is told. A subclass is a frozen dataclass: equal stages share their states."""

    rounds: int
    choices: tuple[tuple[str, ...], tuple[str, ...]]
    """The actions of each seat."""
    spellings: Mapping[str, Sequence[str]] = {}

    def result(self, number: int, choices: tuple[str, str], deal: Hashable) -> Round:
        """What comes of the choices in round `number` (from 0) of a hand with that deal of chance."""
        return Round(*choices)

    @abstractmethod
    def payoffs(self, one: Round) -> tuple[float, float]:
        """What the round pays each seat."""

    @abstractmethod
    def words(self, one: Round, seat: int) -> tuple[str, ...]:
        """What that player knows of a round that is over, in a few words of a fixed vocabulary."""

    @abstractmethod
    def line(self, one: Round, seat: int) -> str:
        """The same as prose, after `Round 1: `."""

    @abstractmethod
    def question(self, seat: int) -> str:
        """What is asked in each round, after `Round 1 of 5: `."""

    @abstractmethod
    def verdict(self, played: Sequence[Round], seat: int) -> str:
        """What the hand brought that player, after `The 5 rounds are over: `."""

    def picture(self, played: Sequence[Round], seat: int, over: bool) -> Picture:
        """What that player may see, in games that have pictures."""
        raise TypeError(f"{type(self).__name__} has no picture; it is shown as text alone.")

    def won(self, mean: float, seat: int) -> bool:
        """Whether that mean per round is a success."""
        return mean > 0


class RoundsState(GrownState):
    """One point of a hand: the rounds so far, and the first seat's choice where the second one's is awaited.

    An information state is the stage's words for each round and then, until the round is over, one's own choice in it.
    """

    def __init__(
        self, stage: StageGame, deal: Hashable, played: tuple[Round, ...], chosen: str | None, origin: Origin
    ) -> None:
        self.stage, self.deal, self.played, self.chosen = stage, deal, played, chosen
        self.spellings = stage.spellings
        over = len(played) == stage.rounds
        player = None if over else int(chosen is not None)
        paid = [stage.payoffs(one) for one in played]
        super().__init__(
            player,
            (sum(first for first, _ in paid) / stage.rounds, sum(second for _, second in paid) / stage.rounds)
            if over
            else (0.0, 0.0),
            keys=(self._key(0), self._key(1)),
            legal_actions=() if player is None else stage.choices[player],
            origin=origin,
        )

    def follower(self, action: str) -> RoundsState:
        if self.chosen is None:
            return RoundsState(
                stage=self.stage, deal=self.deal, played=self.played, chosen=action, origin=self.origin.then(action)
            )
        one = self.stage.result(len(self.played), (self.chosen, action), self.deal)
        return RoundsState(
            stage=self.stage, deal=self.deal, played=(*self.played, one), chosen=None, origin=self.origin.then(action)
        )

    def won(self, seat: int) -> bool:
        return self.stage.won(self.returns[seat], seat)

    def picture(self, seat: int) -> Picture:
        return self.stage.picture(self.played, seat, self.player is None)

    def _key(self, seat: int) -> str:
        words = [word for one in self.played for word in self.stage.words(one, seat)]
        return " ".join(words if seat or self.chosen is None else [*words, self.chosen])

    def tell(self, seat: int) -> str:
        stage = self.stage
        lines = [f"Round {number}: {stage.line(one, seat)}" for number, one in enumerate(self.played, start=1)]
        if self.player is None:
            count = f"The {stage.rounds} rounds are over" if stage.rounds > 1 else "The round is over"
            return "\n".join([*lines, f"{count}: {stage.verdict(self.played, seat)}"])
        waits = self.player != seat
        now = f"you chose {self.chosen}. " if waits and seat == 0 else ""
        now += "The other player is yet to choose." if waits else stage.question(seat)
        return "\n".join([*lines, f"Round {len(self.played) + 1} of {stage.rounds}: {now}"])


@cache
def first_state(stage: StageGame, deal: Hashable) -> RoundsState:
    """The shared first state of hands with that deal."""
    return RoundsState(stage=stage, deal=deal, played=(), chosen=None, origin=Origin(first_state, (stage, deal)))


class RoundsGame(TableGame):
    """A game of rounds, with the deals of chance that there are and their probabilities."""

    def __init__(
        self, facts: GameFacts, stage: StageGame, deals: Sequence[tuple[float, Hashable]] = ((1.0, None),)
    ) -> None:
        self.facts = facts
        self.stage = stage
        super().__init__([(chance, first_state(stage, deal)) for chance, deal in deals])


def together(numbers: Sequence[float], name: str) -> str:
    """A sum with its unit: `14 points`."""
    total = sum(numbers)
    return f"{total:g} {name}{'s' * (total != 1)}"
