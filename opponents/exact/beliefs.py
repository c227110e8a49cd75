"""What a learner may believe before each hand of a meta-episode about which opponent of a pool it faces.

A belief is what all that was seen so far says about the opponents: the same whatever the order it was seen in, and for
all evidence with the same ratios between them. So the states are far fewer than the histories, and one pass forwards
finds them all. Logarithms are kept as whole numbers, so that the same evidence in another order is the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opponents.exact.hands import Floats, LivedHand, TooManyStates

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

STATES = 15_000_000
"""Most states of a problem that is solved (about 2 GB of memory)."""
CHUNK = 50_000
"""States that are worked on at a time: a tenth of a second, after which Ctrl-C is heard."""
TellsStates = Callable[[int, int, int], None]
"""Called as the work goes on with the number of hands before which all states are known, of these states, and of the
most that there can be before all hands."""
_UNIT = 2.0**46
"""Of logarithms, as whole numbers."""
_SAME = 14
"""Bits of such a number that do not tell beliefs apart: they are one state if they agree to 1 in 4 billion."""
_DEAD = np.int64(-(2**62))
"""The logarithm of 0."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class BeliefStage(NamedTuple):
    """The states before one hand, and where the hand leads from each."""

    beliefs: Floats
    """(N, S): the probability of each opponent in each state."""
    after: NDArray[np.int32]
    """(E, S): state of the next hand after each piece of evidence, 0 where it cannot be; E = 0 for the last hand."""


def most_states(hands: Sequence[LivedHand]) -> int:
    """A bound of the number of states: the ways to have seen so many pieces of evidence, their order aside."""
    total = 0
    for past in range(len(hands)):
        ways = 1
        for hand in dict.fromkeys(map(id, hands)):
            times = sum(id(one) == hand for one in hands[:past])
            size = next(len(one.evidence) for one in hands if id(one) == hand)
            ways *= comb(size + times - 1, times)
        total += ways
    return total


def stages_of(
    prior: Sequence[float], hands: Sequence[LivedHand], limit: int = STATES, progress: TellsStates | None = None
) -> list[BeliefStage]:
    """The states before each of `hands`, the first of which is the prior alone.

    Raises `TooManyStates` above `limit` states.
    """
    stages = []
    most = most_states(hands)
    logs = _logs(np.array(prior, float)[:, None])
    count = 1
    for number, hand in enumerate(hands[:-1], 1):
        if progress is not None:
            progress(number, count, most)
        step = _logs(hand.evidence.T)
        keys = _keys_after(logs, step)
        found = _distinct(keys)
        count += len(found)
        if count > limit:
            raise TooManyStates(
                f"The pool of {len(prior)} has more than {limit:,} states of belief within {len(hands)} hands; take "
                "fewer episodes, hands or opponents, or raise the limit."
            )
        after = _places(keys, found)
        stages.append(BeliefStage(_probabilities(logs), np.where(keys == 0, np.int32(0), after)))
        logs = _first_of_each(logs, step, keys, after, len(found))
    return [*stages, BeliefStage(_probabilities(logs), np.zeros((0, logs.shape[1]), np.int32))]


def _logs(probabilities: Floats) -> Integers:
    """Of (N, S), as whole numbers."""
    positive = probabilities > 0
    logs = np.log(np.where(positive, probabilities, 1.0))
    return np.where(positive, np.rint(logs * _UNIT).astype(np.int64), _DEAD)


def _probabilities(logs: Integers) -> Floats:
    """(N, S), each column with the sum 1."""
    made: Floats = np.exp((logs - logs.max(axis=0)) / _UNIT)
    made /= made.sum(axis=0)
    return made


def _joined(logs: Integers, step: Integers) -> Integers:
    """(N, S): beliefs after one piece of evidence (N, 1), the largest entry 0 unless all are dead."""
    both = logs + step
    dead = (logs == _DEAD) | (step == _DEAD)
    if dead.any():
        both[dead] = _DEAD
    top = both.max(axis=0)
    both -= np.where(top == _DEAD, 0, top)
    if dead.any():
        both[dead] = _DEAD
    return both


def _keys_after(logs: Integers, step: Integers) -> Keys:
    """(E, S): a key of each belief after each piece of evidence; 0 where that cannot be seen.

    Beliefs share a key by chance with a probability below 1 in 100,000, in all of the largest problem that is solved.
    """
    keys = np.zeros((step.shape[1], logs.shape[1]), np.uint64)
    for at in range(0, logs.shape[1], CHUNK):
        part = logs[:, at : at + CHUNK]
        for row, evidence in enumerate(step.T):
            both = _joined(part, evidence[:, None])
            key = np.zeros(both.shape[1], np.uint64)
            for cells in (both + 2 ** (_SAME - 1)) >> _SAME:
                key = (key ^ cells.view(np.uint64)) * _ODD
                key ^= key >> np.uint64(29)
            keys[row, at : at + CHUNK] = np.where(both.max(axis=0) == _DEAD, np.uint64(0), key | np.uint64(1))
    return keys


def _distinct(keys: Keys) -> Keys:
    """All keys but 0, sorted, once each."""
    found = _sorted_set(np.concatenate([_sorted_set(row) for row in keys]))
    return found[found > 0]


def _sorted_set(keys: Keys) -> Keys:
    """The same as `np.unique`, by sorting, which is faster here by far."""
    ordered = np.sort(keys)
    distinct: Keys = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct


def _places(keys: Keys, found: Keys) -> NDArray[np.int32]:
    """(E, S): where each key lies in `found`. Keys are spread evenly: their first bits tell the place nearly."""
    bits = max(len(found) - 1, 1).bit_length()
    shift = np.uint64(64 - bits)
    starts = np.searchsorted(found, np.arange(2**bits, dtype=np.uint64) << shift).astype(np.int32)
    places = np.empty(keys.shape, np.int32)
    for row, mine in zip(places, keys, strict=True):
        for at in range(0, len(mine), CHUNK):
            wanted = mine[at : at + CHUNK]
            place = starts[wanted >> shift].clip(max=len(found) - 1)
            wrong = np.flatnonzero((found[place] != wanted) & (wanted > 0))
            while len(wrong):
                place[wrong] += 1
                wrong = wrong[found[place[wrong]] != wanted[wrong]]
            row[at : at + CHUNK] = place
    return places


def _first_of_each(logs: Integers, step: Integers, keys: Keys, after: NDArray[np.int32], size: int) -> Integers:
    """(N, size): one belief for each state before the next hand."""
    made = np.empty((logs.shape[0], size), np.int64)
    for row in reversed(range(len(keys))):
        possible = np.flatnonzero(keys[row])
        source = np.full(size, -1, np.int64)
        source[after[row, possible][::-1]] = possible[::-1]
        reached = np.flatnonzero(source >= 0)
        made[:, reached] = _joined(logs[:, source[reached]], step[:, row : row + 1])
    return made
