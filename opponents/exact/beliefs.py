"""States of belief of a learner before each hand of a meta-episode: the probabilities of the pool's opponents.

A belief depends on the evidence so far, but not on its order, and only on the ratios of the opponents' likelihoods. The
number of states is therefore far below the number of histories, and one forward pass finds all of them.

Log-probabilities are stored as integers (fixed point). Adding integers is exact, so the same evidence in another order
is the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.opponents.exact.learner_hands import Floats, LearnerHand, TooManyStates

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

STATES = 15_000_000
"""Default limit on the states of a problem (about 2 GB of memory)."""
CHUNK = 50_000
"""Number of states per numpy operation: about 0.1 s, so that Ctrl-C works in between."""
TellsStates = Callable[[int, int, int], None]
"""Callback with (hands with known states, states so far, upper bound of the states before all hands)."""
_UNIT = 2.0**46
"""Fixed-point unit of log-probabilities."""
_SAME = 14
"""Number of low bits that are ignored when beliefs are compared: 2^(14 - 46) is 1 in 4 billion."""
_DEAD = np.int64(-(2**62))
"""Fixed-point logarithm of 0."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier of the hash of a belief: 2^64 divided by the golden ratio."""


class BeliefStage(NamedTuple):
    """The states before one hand, and the transitions to the states before the next hand."""

    beliefs: Floats
    """Probability of each opponent in each state, (N, S)."""
    successors: NDArray[np.int32]
    """State before the next hand after each piece of evidence, (E, S); 0 if impossible. E = 0 for the last hand."""


def max_states(hands: Sequence[LearnerHand]) -> int:
    """Return an upper bound of the number of states: the multisets of evidence before each hand."""
    # Hands that are the same object have the same evidence, so their order does not matter. t hands with e pieces of
    # evidence have C(e + t - 1, t) multisets; different hands multiply.
    total = 0
    for past in range(len(hands)):
        ways = 1
        for hand_id in dict.fromkeys(map(id, hands)):
            times = sum(id(hand) == hand_id for hand in hands[:past])
            size = next(len(hand.evidence) for hand in hands if id(hand) == hand_id)
            ways *= comb(size + times - 1, times)
        total += ways
    return total


def stages_of(
    prior: Sequence[float], hands: Sequence[LearnerHand], limit: int = STATES, progress: TellsStates | None = None
) -> list[BeliefStage]:
    """Return the states before each of `hands`; before the first hand, the prior is the only state.

    Args:
        prior: Probability of each opponent, (N,).
        hands: Hands in the order of play.
        limit: Maximum number of states.
        progress: Callback before each hand.

    Raises:
        TooManyStates: If there are more than `limit` states.
    """
    stages = []
    bound = max_states(hands)
    logs = _logs(np.array(prior, float)[:, None])
    count = 1
    for number, hand in enumerate(hands[:-1], 1):
        if progress is not None:
            progress(number, count, bound)
        step = _logs(hand.evidence.T)
        keys = _keys_after(logs, step)
        distinct = _distinct(keys)
        count += len(distinct)
        if count > limit:
            raise TooManyStates(
                f"The pool of {len(prior)} has more than {limit:,} states of belief within {len(hands)} hands. Use "
                "fewer episodes, hands or opponents, or raise the limit."
            )
        successors = _key_indices(keys, distinct)
        # A key of 0 marks impossible evidence, which has no place among the distinct keys.
        stages.append(BeliefStage(_probabilities(logs), np.where(keys == 0, np.int32(0), successors)))
        logs = _first_of_each(logs, step, keys, successors, len(distinct))
    return [*stages, BeliefStage(_probabilities(logs), np.zeros((0, logs.shape[1]), np.int32))]


def _logs(probabilities: Floats) -> Integers:
    """Return the fixed-point logarithms of probabilities, (N, S)."""
    positive = probabilities > 0
    logs = np.log(np.where(positive, probabilities, 1.0))
    return np.where(positive, np.rint(logs * _UNIT).astype(np.int64), _DEAD)


def _probabilities(logs: Integers) -> Floats:
    """Return the probabilities of fixed-point logarithms, (N, S), with columns that sum to 1."""
    # Subtracting the maximum avoids underflow; `_DEAD` becomes exp of a huge negative number, which is 0.
    probabilities: Floats = np.exp((logs - logs.max(axis=0)) / _UNIT)
    probabilities /= probabilities.sum(axis=0)
    return probabilities


def _add_evidence(logs: Integers, step: Integers) -> Integers:
    """Return the beliefs after one piece of evidence (N, 1): (N, S), with the largest entry of a column at 0.

    A column is `_DEAD` throughout if no opponent can have produced the evidence.
    """
    # Bayes' rule in logarithms: add, then normalise. The largest entry instead of the sum keeps the numbers exact.
    posterior = logs + step
    # Adding to `_DEAD` changes its value. It is restored, so that equal beliefs have equal entries.
    dead = (logs == _DEAD) | (step == _DEAD)
    if dead.any():
        posterior[dead] = _DEAD
    top = posterior.max(axis=0)
    posterior -= np.where(top == _DEAD, 0, top)
    if dead.any():
        posterior[dead] = _DEAD
    return posterior


def _keys_after(logs: Integers, step: Integers) -> Keys:
    """Return a hash of each belief after each piece of evidence, (E, S); 0 if the evidence is impossible.

    In a problem with `STATES` states, the probability that any two beliefs share a hash is below 1 in 80,000. This is
    the birthday bound for 63 bits.
    """
    keys = np.zeros((step.shape[1], logs.shape[1]), np.uint64)
    for at in range(0, logs.shape[1], CHUNK):
        part = logs[:, at : at + CHUNK]
        for row, evidence in enumerate(step.T):
            posterior = _add_evidence(part, evidence[:, None])
            key = np.zeros(posterior.shape[1], np.uint64)
            # Adding half of the ignored range rounds to nearest, so noise in the last bits rarely splits a belief.
            for cells in (posterior + 2 ** (_SAME - 1)) >> _SAME:
                key = (key ^ cells.view(np.uint64)) * _ODD
                key ^= key >> np.uint64(29)
            # The lowest bit is set, so that no possible belief has the key 0.
            keys[row, at : at + CHUNK] = np.where(posterior.max(axis=0) == _DEAD, np.uint64(0), key | np.uint64(1))
    return keys


def _distinct(keys: Keys) -> Keys:
    """Return the distinct keys without 0, sorted."""
    # Rows are reduced first, because sorting all of them together takes more memory and time.
    distinct = _sort_unique(np.concatenate([_sort_unique(row) for row in keys]))
    return distinct[distinct > 0]


def _sort_unique(keys: Keys) -> Keys:
    """Return the sorted distinct keys, as `np.unique` does, but much faster here."""
    sorted_keys = np.sort(keys)
    distinct: Keys = sorted_keys[np.append(True, sorted_keys[1:] != sorted_keys[:-1])]
    return distinct


def _key_indices(keys: Keys, distinct: Keys) -> NDArray[np.int32]:
    """Return the index of each key in `distinct`, (E, S)."""
    # Keys are hashes and hence spread evenly. Instead of a binary search per key, a table by their first bits finds a
    # position at or just before the right one. A few steps forward do the rest.
    bits = max(len(distinct) - 1, 1).bit_length()
    shift = np.uint64(64 - bits)
    starts = np.searchsorted(distinct, np.arange(2**bits, dtype=np.uint64) << shift).astype(np.int32)
    indices = np.empty(keys.shape, np.int32)
    for row, row_keys in zip(indices, keys, strict=True):
        for at in range(0, len(row_keys), CHUNK):
            chunk_keys = row_keys[at : at + CHUNK]
            chunk_indices = starts[chunk_keys >> shift].clip(max=len(distinct) - 1)
            # Keys of 0 are not in `distinct`; their indices are ignored by the caller.
            wrong = np.flatnonzero((distinct[chunk_indices] != chunk_keys) & (chunk_keys > 0))
            while len(wrong):
                chunk_indices[wrong] += 1
                wrong = wrong[distinct[chunk_indices[wrong]] != chunk_keys[wrong]]
            row[at : at + CHUNK] = chunk_indices
    return indices


def _first_of_each(logs: Integers, step: Integers, keys: Keys, successors: NDArray[np.int32], size: int) -> Integers:
    """Return one belief for each state before the next hand, (N, size)."""
    # Several transitions lead to one state, with beliefs that differ in their last bits. The first one counts: rows are
    # visited backward, and numpy keeps the last value that is assigned to a repeated index.
    beliefs = np.empty((logs.shape[0], size), np.int64)
    for row in reversed(range(len(keys))):
        possible = np.flatnonzero(keys[row])
        source = np.full(size, -1, np.int64)
        source[successors[row, possible][::-1]] = possible[::-1]
        reached_states = np.flatnonzero(source >= 0)
        beliefs[:, reached_states] = _add_evidence(logs[:, source[reached_states]], step[:, row : row + 1])
    return beliefs
