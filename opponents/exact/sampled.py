"""Tables of sampled moves of policies without known probabilities, for estimates of values against them.

The best response to a table of samples earns more against the table than against the policy: it also exploits the
sample's luck. The samples are therefore divided into two halves, which bound the value:

* Lower bound: a response to one half, evaluated on the other half. This estimates its value without bias, and its value
  is at most that of the best response.
* Upper bound: the best response to a half, evaluated on the same half. Its expectation is at least the true value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.exact.tree import is_exact
from mage_envs.opponents.switching import Switching, switching
from mage_envs.opponents.tabular import TabularPolicy
from mage_envs.tree import Node, roots_of

GROUPS = 5
"""Number of groups in each half of the samples, for the jackknife errors."""
HALVES = 2

LEVEL = 100
"""Factor of `samples` that all states after the same number of moves receive together; see `SampledMoves`."""

STUDENT = 2.306
"""97.5% quantile of Student's distribution with 8 degrees of freedom: 2 halves with 5 groups each, minus 1 per half."""


class Sampled(ABC):
    """A policy in the form of sampled moves."""

    @abstractmethod
    def table(self, half: int | None = None, without: int | None = None) -> Policy:
        """Return the frequencies of all samples, or of one half, without its group `without` if that is set."""


def sample(game: Game, policy: Policy, samples: int, rng: np.random.Generator) -> Sampled:
    """Return the samples of a policy. A switch is sampled part by part.

    Args:
        game: Game with an enumerable tree.
        policy: Policy that plays alike in every episode, or a switch between such policies.
        samples: Minimum number of moves per information state.
    """
    # The sampled turns have episode 0, so a switch as a whole would only show its first part.
    if isinstance(policy, Switching):
        return _SampledSwitching(game, policy, samples, rng)
    return SampledMoves(game, policy, samples, rng)


class SampledMoves(Sampled):
    """Sampled moves of a policy at every information state of a game, in two halves of `GROUPS` groups.

    Early states are few and have the largest weights. All states after the same number of moves therefore receive
    `LEVEL` times `samples` together, if that is more than `samples` each. The policy is reset before every sample.
    """

    def __init__(self, game: Game, policy: Policy, samples: int, rng: np.random.Generator) -> None:
        """Sample the policy.

        Args:
            game: Game with an enumerable tree.
            policy: Policy that plays alike in every episode.
            samples: Minimum number of moves per information state.

        Raises:
            ValueError: If `samples` is less than one per group.
        """
        if samples < HALVES * GROUPS:
            raise ValueError(f"Moves must be sampled at least {HALVES * GROUPS} times in each state, got {samples}.")
        self._counts: dict[str, list[Counter[str]]] = {}
        """Counts of the moves of each group, by information state."""
        turns = _turns(game)
        states = Counter(moves for moves, _ in turns)
        for moves, turn in turns:
            # A forced move needs no sample; the table still needs a row in every group.
            if len(turn.legal_actions) == 1:
                self._counts[turn.information_state] = _by_group(list(turn.legal_actions) * samples)
                continue
            actions = []
            for _ in range(max(samples, LEVEL * samples // states[moves])):
                policy.reset(rng)
                actions.append(policy.act(turn))
            self._counts[turn.information_state] = _by_group(actions)

    def table(self, half: int | None = None, without: int | None = None) -> TabularPolicy:
        """Return the frequencies of all samples, or of one half, without its group `without` if that is set."""
        # Even groups form one half and odd groups the other.
        groups = [
            number
            for number in range(HALVES * GROUPS)
            if half is None or (number % HALVES == half and number // HALVES != without)
        ]
        return TabularPolicy({state: _frequencies(counts, groups) for state, counts in self._counts.items()})


class _Known(Sampled):
    """A part of a switch with exact probabilities, which requires no samples."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def table(self, half: int | None = None, without: int | None = None) -> Policy:
        return self._policy


class _SampledSwitching(Sampled):
    """A switch between two policies, at least one of which is sampled."""

    def __init__(self, game: Game, policy: Switching, samples: int, rng: np.random.Generator) -> None:
        self._parts = [
            _Known(part) if is_exact(part) else sample(game, part, samples, rng) for part in (policy.first, policy.then)
        ]
        self._episode = policy.episode

    def table(self, half: int | None = None, without: int | None = None) -> Policy:
        first_table, later_table = (part.table(half, without) for part in self._parts)
        return switching(first_table, later_table, self._episode)


def _by_group(moves: Sequence[str]) -> list[Counter[str]]:
    """Count the moves of each group. Sample i belongs to group i mod 10."""
    return [Counter(moves[number :: HALVES * GROUPS]) for number in range(HALVES * GROUPS)]


def _frequencies(counts: Sequence[Counter[str]], groups: Sequence[int]) -> Mapping[str, float]:
    total: Counter[str] = Counter()
    for number in groups:
        total.update(counts[number])
    size = total.total()
    return {move: count / size for move, count in total.items()}


def _turns(game: Game) -> list[tuple[int, Turn]]:
    """Return, for each information state, the number of moves before it and a turn there.

    In games of perfect information the turn contains the history, because search policies read it.
    """
    turns: dict[str, tuple[int, Turn]] = {}
    visited_nodes: set[Node] = set()
    waiting: list[tuple[Node, int, tuple[str, ...]]] = [(node, 0, ()) for _, node in reversed(roots_of(game))]
    while waiting:
        node, moves, past = waiting.pop()
        if node in visited_nodes or node.player is None:
            continue
        visited_nodes.add(node)
        turn = node.turn()
        history = (*past, *node.state.chance_events) if game.spec.perfect_information else ()
        turns.setdefault(turn.information_state, (moves, turn._replace(history=history)))
        waiting.extend((child, moves + 1, (*history, action)) for action, child in reversed(node.children.items()))
    return list(turns.values())


def jackknife_error(without: Sequence[float]) -> float:
    """Return the standard error of an estimate from its values without each group (Quenouille 1956, Tukey 1958)."""
    # The jackknife variance is (n - 1) / n times the sum of squared deviations; `var` divides by n already.
    values = np.array(without)
    return float(np.sqrt((len(values) - 1) * values.var()))


def interval(
    lower: Sequence[tuple[float, Sequence[float]]], upper: Sequence[tuple[float, Sequence[float]]]
) -> tuple[float, float]:
    """Return a 95% interval around a value between two estimated bounds.

    Args:
        lower: For each evaluated half, the estimate of the lower bound, and the estimates without each group.
        upper: The same for the upper bound.
    """
    (low, below), (high, above) = (_mean_and_error(bound) for bound in (lower, upper))
    return low - STUDENT * below, high + STUDENT * above


def _mean_and_error(halves: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    # The halves count as independent: the variance of their mean is the sum of their variances over the number squared.
    squares = [jackknife_error(without) ** 2 for _, without in halves]
    return sum(value for value, _ in halves) / len(halves), sum(squares) ** 0.5 / len(halves)
