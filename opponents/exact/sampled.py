"""Policies without known probabilities as tables of their sampled moves, so that values against them are estimates.

The best response to a table of samples earns more against that table than against the policy: it also exploits the
luck of the sample. So the samples lie in two halves. A response that was chosen on one half is evaluated on the other,
which tells without bias what it earns, and that is at most the best; the best against a half itself is, in the mean,
at least the best. The two bound the value from below and from above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mage_envs.core import ExactPolicy, Game, Policy, Turn
from opponents.exact.tree import Node, is_exact, roots_of
from opponents.switching import Switching, switching
from opponents.tabular import TabularPolicy

GROUPS = 5
"""Groups of samples in each of the two halves of a table, from which the errors are computed."""
HALVES = 2

LEVEL = 100
"""See `SampledMoves`."""

STUDENT = 2.306
"""The 97.5% point of Student's distribution with 8 degrees of freedom, those of the groups of both halves."""


class Sampled(Protocol):
    """A policy whose moves were sampled."""

    def table(self, half: int | None = None, without: int | None = None) -> ExactPolicy:
        """Return the frequencies of all samples or of one half, without one of its groups if `without` names it."""
        ...


def sample(game: Game, policy: Policy, samples: int, rng: np.random.Generator) -> Sampled:
    """Sample a policy. A switch is sampled part by part; all else must play alike in every episode."""
    if isinstance(policy, Switching):
        return _SampledSwitching(game, policy, samples, rng)
    return SampledMoves(game, policy, samples, rng)


class SampledMoves:
    """Moves of a policy at every information state of a game, at least `samples` at each, in two halves of `GROUPS`.

    Early states are few and weigh most: those after the same number of moves get `LEVEL` times `samples` together,
    if that is more. Each sample starts the policy anew.
    """

    def __init__(self, game: Game, policy: Policy, samples: int, rng: np.random.Generator) -> None:
        if samples < HALVES * GROUPS:
            raise ValueError(f"Moves must be sampled at least {HALVES * GROUPS} times in each state, got {samples}.")
        self._moves: dict[str, list[str]] = {}
        turns = _turns(game)
        states = Counter(moves for moves, _ in turns)
        for moves, turn in turns:
            if len(turn.legal_actions) == 1:
                self._moves[turn.information_state] = list(turn.legal_actions) * samples
                continue
            made = []
            for _ in range(max(samples, LEVEL * samples // states[moves])):
                policy.reset(rng)
                made.append(policy.act(turn))
            self._moves[turn.information_state] = made

    def table(self, half: int | None = None, without: int | None = None) -> TabularPolicy:
        """Return the frequencies of all samples or of one half, without one of its groups if `without` names it."""
        groups = {
            number
            for number in range(HALVES * GROUPS)
            if half is None or (number % HALVES == half and number // HALVES != without)
        }
        return TabularPolicy({state: _frequencies(moves, groups) for state, moves in self._moves.items()})


class _Known:
    """A part of a switch that need not be sampled."""

    def __init__(self, policy: ExactPolicy) -> None:
        self._policy = policy

    def table(self, half: int | None = None, without: int | None = None) -> ExactPolicy:
        return self._policy


class _SampledSwitching:
    """A switch between two policies at least one of which is sampled."""

    def __init__(self, game: Game, policy: Switching, samples: int, rng: np.random.Generator) -> None:
        self._parts = [
            _Known(part) if is_exact(part) else sample(game, part, samples, rng) for part in (policy.first, policy.then)
        ]
        self._episode = policy.episode

    def table(self, half: int | None = None, without: int | None = None) -> ExactPolicy:
        first, then = (part.table(half, without) for part in self._parts)
        switched = switching(first, then, self._episode)
        if not is_exact(switched):
            raise TypeError("A switch between two tables is exact.")
        return switched


def _frequencies(moves: Sequence[str], groups: set[int]) -> Mapping[str, float]:
    kept = [move for number, move in enumerate(moves) if number % (HALVES * GROUPS) in groups]
    return {move: kept.count(move) / len(kept) for move in dict.fromkeys(kept)}


def _turns(game: Game) -> list[tuple[int, Turn]]:
    """The number of moves before each information state, and a turn there: with the moves where nothing is hidden."""
    found: dict[str, tuple[int, Turn]] = {}
    seen: set[Node] = set()
    waiting: list[tuple[Node, int, tuple[str, ...]]] = [(node, 0, ()) for _, node in reversed(roots_of(game))]
    while waiting:
        node, moves, past = waiting.pop()
        if node in seen or node.player is None:
            continue
        seen.add(node)
        turn = node.turn()
        history = (*past, *node.state.happened) if game.facts.perfect_information else ()
        found.setdefault(turn.information_state, (moves, turn._replace(history=history)))
        waiting.extend((child, moves + 1, (*history, action)) for action, child in reversed(node.children.items()))
    return list(found.values())


def jackknife_error(without: Sequence[float]) -> float:
    """The standard error of an estimate from its values without each group (Quenouille 1956, Tukey 1958)."""
    values = np.array(without)
    return float(np.sqrt((len(values) - 1) * values.var()))


def interval(
    lower: Sequence[tuple[float, Sequence[float]]], upper: Sequence[tuple[float, Sequence[float]]]
) -> tuple[float, float]:
    """Return a 95% interval around a value that two estimates bound.

    Args:
        lower: For each half that was evaluated, the estimate of the lower bound, and that without each group.
        upper: The same of the upper bound.
    """
    (low, below), (high, above) = (_mean_and_error(bound) for bound in (lower, upper))
    return low - STUDENT * below, high + STUDENT * above


def _mean_and_error(halves: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    squares = [jackknife_error(without) ** 2 for _, without in halves]
    return sum(value for value, _ in halves) / len(halves), sum(squares) ** 0.5 / len(halves)
