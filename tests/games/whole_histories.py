"""The best play of several episodes by a recursion over whole histories; it shares no code with the exact values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from mage_envs.core import Game, Policy, State, Turn
from mage_envs.opponents.learning.policy import LearningPolicy

Particle = tuple[float, int, Hashable]
"""Probability of an opponent with a memory, with the history so far: (probability, index, memory)."""


def optimum(game: Game, opponents: Sequence[Policy], episodes: int, seat: int = 0) -> float:
    """Return the most that a learner can earn per episode, in two-player games, if each opponent is equally likely."""

    def before_hand(particles: Sequence[Particle], episode: int) -> float:
        if episode == episodes:
            return 0.0
        merged: dict[tuple[int, Hashable], float] = {}
        for chance, index, memory in particles:
            merged[index, memory] = merged.get((index, memory), 0.0) + chance
        return in_hand(
            [
                (chance * deal, index, memory, state)
                for (index, memory), chance in merged.items()
                for deal, state in game.initial_states()
            ],
            episode,
        )

    def in_hand(histories: list[tuple[float, int, Hashable, State]], episode: int) -> float:
        waiting: dict[str, list[tuple[float, int, Hashable, State]]] = {}
        ends: dict[str, list[tuple[float, int, Hashable, State]]] = {}
        while histories:
            chance, index, memory, state = histories.pop()
            if state.player == seat:
                waiting.setdefault(state.information_state(seat), []).append((chance, index, memory, state))
            elif state.player is None:
                ends.setdefault(state.observation(seat), []).append((chance, index, memory, state))
            else:
                turn, opponent = view(state, 1 - seat, episode), opponents[index]
                learns = isinstance(opponent, LearningPolicy)
                row = opponent.distribution_given(turn, memory) if learns else opponent.distribution(turn)
                histories += [(chance * p, index, memory, state.after(action)) for action, p in row.items() if p > 0]
        total = 0.0
        for group in waiting.values():
            total += max(
                in_hand([(chance, i, memory, state.after(action)) for chance, i, memory, state in group], episode)
                for action in group[0][3].legal_actions
            )
        for group in ends.values():
            total += sum(chance * state.returns[seat] for chance, _, _, state in group)
            total += before_hand(
                [
                    (
                        chance,
                        i,
                        remember(i, memory, state, episode),
                    )
                    for chance, i, memory, state in group
                ],
                episode + 1,
            )
        return total

    def remember(index: int, memory: Hashable, state: State, episode: int) -> Hashable:
        opponent: Any = opponents[index]
        return opponent.step(memory, view(state, 1 - seat, episode)) if isinstance(opponent, LearningPolicy) else ()

    start = [
        (1 / len(opponents), index, opponent.start if isinstance(opponent, LearningPolicy) else ())
        for index, opponent in enumerate(opponents)
    ]
    return before_hand([(chance, index, memory) for chance, index, memory in start], 0) / episodes


def view(state: State, seat: int, episode: int) -> Turn:
    """Return what a player knows at a state."""
    return Turn(
        player=seat,
        observation=state.observation(seat),
        legal_actions=state.legal_actions,
        information_state=state.information_state(seat),
        episode=episode,
    )
