"""Learners of repeated games in which both players choose at the same time: matching pennies, and games like it.

All of them remember every episode. Sources: G. Brown, 1951, "Iterative solution of games by fictitious play";
D. Fudenberg and D. Levine, 1998, "The Theory of Learning in Games" (smooth fictitious play); C. Watkins and P. Dayan,
1992, "Q-learning"; D. Stahl and P. Wilson, 1995, "On players' models of other players" (levels of reasoning).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import exp
from typing import Any

from mage_envs.core import Game, Turn
from mage_envs.games.rounds import Round, RoundsGame
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.tabular import probability_of

Counts = tuple[int, ...]
Row = Sequence[float]
"""Probability of each choice, in the order of the game."""


def rounds_of(turn: Turn) -> list[tuple[str, str]]:
    """Return the rounds of this hand as (own choice, the other player's choice)."""
    # `slipped` only marks a choice that noise reversed. Without it, own and other choices alternate.
    words = [word for word in turn.information_state.split() if word != "slipped"]
    return [(own, other.removeprefix("opp-")) for own, other in zip(words[::2], words[1::2], strict=True)]


class MatrixLearner(LearningPolicy):
    """Base class of a learner whose memory changes after each round, by the choices of both players."""

    def __init__(self, game: Game, noise: float = 0.0) -> None:
        """Initialize the learner.

        Args:
            game: Game of rounds.
            noise: Probability of a uniform choice.
        """
        if not isinstance(game, RoundsGame):
            raise TypeError(f"This opponent plays games of rounds, not {game.spec.name}.")
        self._stage, self._noise = game.stage, probability_of(type(self).__name__, noise)
        self.choices: Sequence[str] = game.stage.choices[0]
        if game.stage.choices[1] != self.choices:
            raise TypeError(f"This opponent needs the same choices in both seats, unlike {game.spec.name}.")

    def payoff(self, seat: int, own: str, other: str) -> float:
        """Return a player's payoff of a round, from its own choice and that of the other player."""
        return self._stage.payoffs(Round(other, own) if seat else Round(own, other))[seat]

    @abstractmethod
    def row(self, memory: Any, seat: int) -> Row:
        """Return the probability of each choice under a memory, before noise."""

    @abstractmethod
    def after_round(self, memory: Any, seat: int, own: str, other: str) -> Hashable:
        """Return the memory after a round.

        Args:
            memory: Memory before it.
            seat: Seat of the learner.
            own: Choice of the learner.
            other: Choice of the other player.
        """

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        even = self._noise / len(self.choices)
        row = self.row(self.step(memory, turn), turn.player)
        return {
            choice: even + (1 - self._noise) * chance
            for choice, chance in zip(self.choices, row, strict=True)
            if even + chance > 0
        }

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        for own, other in rounds_of(turn):
            memory = self.after_round(memory, turn.player, own, other)
        return memory

    def respond(self, seat: int, others: Row) -> Row:
        """Return the best response to the other player's probabilities; equally good choices share it evenly."""
        values = self.values(seat, others)
        best = [value >= max(values) - 1e-9 for value in values]
        return [is_best / sum(best) for is_best in best]

    def values(self, seat: int, others: Row) -> Sequence[float]:
        """Return the expected payoff of each choice against the other player's probabilities."""
        return [
            sum(chance * self.payoff(seat, own, other) for other, chance in zip(self.choices, others, strict=True))
            for own in self.choices
        ]

    def uniform(self) -> Row:
        """Return the same probability for each choice."""
        return [1 / len(self.choices)] * len(self.choices)


class LevelLearner(MatrixLearner):
    """A player who reasons for some levels from the frequencies of past choices.

    At level 1, it plays the best response to the other player's frequencies (fictitious play). At level 2, it plays the
    best response to the other player's best response to its own frequencies, and so on. The first choice is uniform.
    """

    def __init__(self, game: Game, level: int, noise: float = 0.1) -> None:
        super().__init__(game, noise)
        self._level = level
        self.start = (0,) * len(self.choices)

    def after_round(self, memory: Counts, seat: int, own: str, other: str) -> Counts:
        # The chain of best responses begins with the frequencies of the other player at odd levels.
        seen = other if self._level % 2 else own
        return tuple(count + (choice == seen) for choice, count in zip(self.choices, memory, strict=True))

    def row(self, memory: Counts, seat: int) -> Row:
        if not any(memory):
            return self.uniform()
        row: Row = [count / sum(memory) for count in memory]
        for step in reversed(range(self._level)):
            row = self.respond(seat if step % 2 == 0 else 1 - seat, row)
        return row


class SmoothLearner(LevelLearner):
    """Fictitious play with a logit response: choices that are nearly as good are nearly as likely."""

    def __init__(self, game: Game, temperature: float) -> None:
        if temperature <= 0:
            raise ValueError(f"Opponent 'smooth': the temperature must be above 0, got {temperature}.")
        super().__init__(game, level=1, noise=0.0)
        self._temperature = temperature

    def row(self, memory: Counts, seat: int) -> Row:
        total = max(sum(memory), 1)
        values = self.values(seat, [count / total for count in memory])
        # The largest value is subtracted so that a low temperature does not overflow.
        weights = [exp((value - max(values)) / self._temperature) for value in values]
        return [weight / sum(weights) for weight in weights]


class QLearner(MatrixLearner):
    """A learner with one value per choice, which moves toward each payoff; it plays the choice of the highest value."""

    DIGITS = 6
    """Digits of a value. Rounding makes equal experiences equal memories."""

    def __init__(self, game: Game, noise: float = 0.1, rate: float = 0.5) -> None:
        """Initialize the learner.

        Args:
            game: Game of rounds.
            noise: Probability of a uniform choice.
            rate: Share of the difference between payoff and value that is learned.
        """
        super().__init__(game, noise)
        self._rate = probability_of("qlearner", rate)
        self.start = (0.0,) * len(self.choices)

    def after_round(self, memory: tuple[float, ...], seat: int, own: str, other: str) -> tuple[float, ...]:
        payoff = self.payoff(seat, own, other)
        return tuple(
            round(value + self._rate * (payoff - value), self.DIGITS) if choice == own else value
            for choice, value in zip(self.choices, memory, strict=True)
        )

    def row(self, memory: tuple[float, ...], seat: int) -> Row:
        best = [value == max(memory) for value in memory]
        return [is_best / sum(best) for is_best in best]


class WinStayPolicy(MatrixLearner):
    """A player that repeats its choice after a payoff above 0, or else takes the next one. It begins at random."""

    start = ""

    def after_round(self, memory: str, seat: int, own: str, other: str) -> str:
        if self.payoff(seat, own, other) > 0:
            return own
        return self.choices[(self.choices.index(own) + 1) % len(self.choices)]

    def row(self, memory: str, seat: int) -> Row:
        return [float(choice == memory) for choice in self.choices] if memory else self.uniform()


class FrequencyResponder(LevelLearner):
    """A learner that best-responds to the other player's frequencies, with each choice counted once in advance.

    It plays the first one of equally good choices: the textbook way to exploit an opponent that does not change.
    """

    def __init__(self, game: Game) -> None:
        super().__init__(game, level=1, noise=0.0)
        self.start = (1,) * len(self.choices)

    def row(self, memory: Counts, seat: int) -> Row:
        values = self.values(seat, [count / sum(memory) for count in memory])
        # Rounding may separate values that are equal.
        best = next(index for index, value in enumerate(values) if value >= max(values) - 1e-9)
        return [float(index == best) for index in range(len(values))]


def fictitious(game: Game, noise: float = 0.1) -> LevelLearner:
    """Return fictitious play, the best response to all past choices of the other player; `noise` is uniform."""
    return LevelLearner(game, 1, noise)


def level(game: Game, k: int, noise: float = 0.1) -> LevelLearner:
    """Return a player that reasons for k levels: `level:2` expects a best response to its own frequencies."""
    if k < 2:
        raise ValueError(f"Opponent 'level': k must be 2 or more, got {k}; the first level is 'fictitious'.")
    return LevelLearner(game, k, noise)


_GAMES: list[str] = []
"""Games that these opponents play. Their modules add themselves."""


def register_learners(game: str) -> None:
    """Register the learners of this module for a game of rounds with the same choices in both seats."""
    if game not in _GAMES:
        _GAMES.append(game)
    forms: Mapping[str, tuple[Callable[..., LearningPolicy], str | None]] = {
        "fictitious": (fictitious, None),
        "qlearner": (QLearner, None),
        "winstay": (WinStayPolicy, None),
        "frequencies": (FrequencyResponder, None),
        "level": (level, "level:k"),
        "smooth": (SmoothLearner, "smooth:temperature"),
    }
    for name, (builder, form) in forms.items():
        # The registry does not copy the list, so games that are added later count.
        register_opponent(name, games=_GAMES, needs_game=True, form=form, kind="learning")(builder)
