"""Policies without known probabilities as tables of their sampled moves, so that values against them are estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from mage_envs.core import Game, Policy, RemembersMetaEpisode, Turn
from opponents.exact.tree import Node, roots_of
from opponents.registry import make_opponent
from opponents.tabular import TabularPolicy

GROUPS = 5
"""Into how many groups the samples of a table are split, to tell the error of what is computed from it."""

LEVEL = 100
"""See `SampledMoves`."""


class SampledMoves:
    """Moves of a policy at every information state of a game, at least `samples` at each, in `GROUPS` groups.

    Early states are few and weigh most: those after the same number of moves get `LEVEL` times `samples` together,
    if that is more. Each sample starts the policy anew. One that adapts is sampled as it begins a meta-episode.
    """

    def __init__(self, game: Game, spec: str | Policy, samples: int, rng: np.random.Generator) -> None:
        if samples < 2 * GROUPS:
            raise ValueError(f"Moves must be sampled at least {2 * GROUPS} times in each state, got {samples}.")
        policy = make_opponent(spec, game)
        self._moves: dict[str, list[str]] = {}
        turns = _turns(game)
        states = Counter(moves for moves, _ in turns)
        for moves, turn in turns:
            if len(turn.legal_actions) == 1:
                self._moves[turn.information_state] = list(turn.legal_actions) * samples
                continue
            made = []
            for _ in range(max(samples, LEVEL * samples // states[moves])):
                if isinstance(policy, RemembersMetaEpisode):
                    policy.begin_meta_episode()
                policy.reset(rng)
                made.append(policy.act(turn))
            self._moves[turn.information_state] = made

    def table(self, without: int | None = None) -> TabularPolicy:
        """Their frequencies, without those of one group where it is named."""
        return TabularPolicy({state: _frequencies(moves, without) for state, moves in self._moves.items()})


def _frequencies(moves: list[str], without: int | None) -> Mapping[str, float]:
    kept = [move for number, move in enumerate(moves) if number % GROUPS != without]
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


def jackknife_error(without: list[float]) -> float:
    """The standard error of an estimate from its values without each group (Quenouille 1956, Tukey 1958)."""
    values = np.array(without)
    return float(np.sqrt((len(values) - 1) * values.var()))
