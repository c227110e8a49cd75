"""Values by recursion over whole histories of a meta-episode, as a reference. It shares no code with the solver.

It knows the games as small tables of its own, and types as functions of a type's memory. Nothing is merged: no belief
is normalised, no memory is a key, and each history is visited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Payoffs = Mapping[tuple[str, str], float]
"""(own choice, the other's) to the learner's payoff."""


@dataclass(frozen=True)
class Type:
    """A type of a matrix game."""

    start: Any
    play: Callable[[Any], Mapping[str, float]]
    """Function from the memory to the probabilities of its choices."""
    after: Callable[[Any, str, str], Any]
    """Function from the memory, the type's choice and the learner's to the memory."""
    at_end: Callable[[Any], Any]
    """Function from the memory at an episode's end to that at the start of the next."""


@dataclass(frozen=True)
class Problem:
    """A matrix game in several rounds and episodes against one of several types, with a hazard of a new draw."""

    payoffs: Payoffs
    choices: Sequence[str]
    rounds: int
    episodes: int
    types: Sequence[Type]
    hazard: float = 0.0


def optimum(problem: Problem) -> float:
    """Return the mean payoff per round of the learner that is optimal for the sum of all episodes."""
    count = len(problem.types)

    def value(episode: int, rnd: int, weights: Sequence[float], memories: Sequence[Any]) -> float:
        """Return the payoff to come, times the probability of the history."""
        if rnd == problem.rounds:
            if episode + 1 == problem.episodes:
                return 0.0
            total = sum(weights)
            mixed = [(1 - problem.hazard) * weight + problem.hazard * total / count for weight in weights]
            return value(
                episode + 1,
                0,
                mixed,
                [one.at_end(memory) for one, memory in zip(problem.types, memories, strict=True)],
            )
        rows = [one.play(memory) for one, memory in zip(problem.types, memories, strict=True)]
        best = float("-inf")
        for mine in problem.choices:
            total = 0.0
            for theirs in problem.choices:
                reached = [weight * row.get(theirs, 0.0) for weight, row in zip(weights, rows, strict=True)]
                if sum(reached) > 0:
                    next_memories = [
                        one.after(memory, theirs, mine) for one, memory in zip(problem.types, memories, strict=True)
                    ]
                    total += sum(reached) * problem.payoffs[mine, theirs]
                    total += value(episode, rnd + 1, reached, next_memories)
            best = max(best, total)
        return best

    start = [1 / count] * count
    return value(0, 0, start, [one.start for one in problem.types]) / problem.episodes / problem.rounds


def stationary(problem: Problem) -> float:
    """Return the mean payoff per round of the learner that expects every episode to be played as the first one.

    It updates its belief after each round. If no type explains a round, the belief falls back to the prior, and the
    round does not count.
    """
    count = len(problem.types)
    prior = [1 / count] * count
    starts = [one.start for one in problem.types]
    plans: dict[Any, tuple[float, float, str]] = {}

    def steps(memories: Sequence[Any], theirs: str, mine: str) -> list[Any]:
        return [one.after(memory, theirs, mine) for one, memory in zip(problem.types, memories, strict=True)]

    def plan(episode: int, rnd: int, belief: Sequence[float], memories: Sequence[Any]) -> tuple[float, float, str]:
        """Return the payoff to come, that of this episode, and the choice."""
        if rnd == problem.rounds:
            if episode + 1 == problem.episodes:
                return 0.0, 0.0, ""
            return plan(episode + 1, 0, belief, starts)[0], 0.0, ""
        key = episode, rnd, tuple(belief), tuple(memories)
        if key in plans:
            return plans[key]
        rows = [one.play(memory) for one, memory in zip(problem.types, memories, strict=True)]
        options = []
        for mine in problem.choices:
            total = present = 0.0
            for theirs in problem.choices:
                reached = [share * row.get(theirs, 0.0) for share, row in zip(belief, rows, strict=True)]
                if (chance := sum(reached)) > 0:
                    later = plan(episode, rnd + 1, [share / chance for share in reached], steps(memories, theirs, mine))
                    total += chance * (problem.payoffs[mine, theirs] + later[0])
                    present += chance * (problem.payoffs[mine, theirs] + later[1])
            options.append((total, present, mine))
        good = [option for option in options if option[0] > max(options)[0] - 1e-9]
        most = max(present for _, present, _ in good)
        plans[key] = next(option for option in good if option[1] > most - 1e-9)
        return plans[key]

    def value(
        episode: int,
        rnd: int,
        weights: Sequence[float],
        memories: Sequence[Any],
        belief: Sequence[float],
        believed: Sequence[Any],
    ) -> float:
        """Return the payoff to come against the types as they are, times the probability of the history."""
        if rnd == problem.rounds:
            if episode + 1 == problem.episodes:
                return 0.0
            total = sum(weights)
            mixed = [(1 - problem.hazard) * weight + problem.hazard * total / count for weight in weights]
            ended = [one.at_end(memory) for one, memory in zip(problem.types, memories, strict=True)]
            return value(episode + 1, 0, mixed, ended, belief, starts)
        mine = plan(episode, rnd, belief, believed)[2]
        total = 0.0
        for theirs in problem.choices:
            reached = [
                weight * one.play(memory).get(theirs, 0.0)
                for weight, one, memory in zip(weights, problem.types, memories, strict=True)
            ]
            if sum(reached) <= 0:
                continue
            expected = [
                share * one.play(memory).get(theirs, 0.0)
                for share, one, memory in zip(belief, problem.types, believed, strict=True)
            ]
            chance = sum(expected)
            next_belief = [share / chance for share in expected] if chance > 0 else prior
            total += sum(reached) * problem.payoffs[mine, theirs] + value(
                episode, rnd + 1, reached, steps(memories, theirs, mine), next_belief, steps(believed, theirs, mine)
            )
        return total

    return value(0, 0, prior, starts, prior, starts) / problem.episodes / problem.rounds
