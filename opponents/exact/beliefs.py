"""States of a learner's problem before each hand of a meta-episode: the opponents' memories, and their probabilities.

A belief depends on the evidence so far, but not on its order, and only on the ratios of the opponents' likelihoods. The
number of states is therefore far below the number of histories, and one forward pass finds all of them. Opponents that
learn have memories, too. States with equal memories are one group, which shares a hand; without such opponents there is
one group.

Log-probabilities are stored as integers (fixed point). Adding integers is exact, so the same evidence in another order
is the same state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.opponents.exact.learner_hands import Floats, LearnerHand, TooManyStates
from mage_envs.opponents.exact.modes import Memories
from mage_envs.opponents.exact.plans import HandPlan, LearnerHands

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

STATES = 15_000_000
"""Default limit on the states of a problem (about 2 GB of memory)."""
ENDINGS = 200_000
"""Maximum number of endings in the hands of all memories together (10 CPU seconds), for opponents that learn."""
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
_EQUAL = 1e-8
"""Largest difference of probabilities in two beliefs that count as equal."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier of the hash of a belief: 2^64 divided by the golden ratio."""


class BeliefGroup(NamedTuple):
    """The S states before a hand in which all memories are equal, and the transitions to those before the next hand."""

    memories: Memories
    """Memory of each opponent, None for those that are excluded; empty if no opponent learns."""
    hand: LearnerHand
    plan: HandPlan
    start: int
    """Index of the first state among all states before this hand."""
    beliefs: Floats
    """Probability of each opponent in each state, (N, S)."""
    successors: NDArray[np.int32]
    """State before the next hand after each piece of evidence, (E, S); 0 if impossible. E = 0 for the last hand."""


class BeliefStage:
    """The states before one hand, in groups."""

    def __init__(self, groups: Sequence[BeliefGroup]) -> None:
        self.groups = groups
        self.size = sum(group.beliefs.shape[1] for group in groups)
        """Number of states."""
        self._starts = [group.start for group in groups]

    def group_of(self, state: int) -> BeliefGroup:
        """Return the group of a state."""
        return self.groups[bisect_right(self._starts, state) - 1]

    def belief(self, state: int) -> Floats:
        """Return the probability of each opponent in a state, (N,)."""
        group = self.group_of(state)
        column: Floats = group.beliefs[:, state - group.start]
        return column

    def find(self, memories: Memories, belief: Floats) -> int | None:
        """Return the state with these memories and this belief up to rounding, or None if there is none."""
        for group in self.groups:
            if group.memories == memories:
                distance = np.abs(group.beliefs - belief[:, None]).max(axis=0)
                state = int(distance.argmin())
                return group.start + state if distance[state] < _EQUAL else None
        return None


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


class _Transition(NamedTuple):
    """Some pieces of evidence of one group, after which the memories are equal."""

    group: int
    """Index of the group before the hand."""
    rows: slice | list[int]
    """Indices of the pieces of evidence."""
    logs: Integers
    """Beliefs before the hand, (N, S)."""
    step: Integers
    """Evidence, (N, E)."""
    keys: Keys
    """Hash of each belief after each piece of evidence, (E, S)."""


def find_stages(
    hands: LearnerHands,
    schedule: Sequence[tuple[int, int]],
    prior: Sequence[float],
    memories: Memories,
    limit: int = STATES,
    progress: TellsStates | None = None,
    first_hand: tuple[LearnerHand, HandPlan] | None = None,
) -> list[BeliefStage]:
    """Return the states before each hand; before the first one there is one state.

    Args:
        hands: Hands of the game and pool.
        schedule: Learner's seat and episode of each hand, in the order of play.
        prior: Probability of each opponent before the first hand, (N,).
        memories: Memory of each opponent before the first hand.
        limit: Maximum number of states.
        progress: Callback before each hand.
        first_hand: The first hand, if it is not the whole one.

    Raises:
        TooManyStates: If there are more than `limit` states.
    """
    modes = hands.modes
    # The groups are not known in advance, so only a pool without memories has a bound below the limit.
    bound = limit if modes.learns else max_states([hands.get(seat, episode)[0] for seat, episode in schedule])
    logs_of = {modes.mask(memories, prior): _logs(np.array(prior, float)[:, None])}
    stages: list[BeliefStage] = []
    count, endings = 1, 0
    for number, (seat, episode) in enumerate(schedule[:-1], 1):
        if progress is not None:
            progress(number, count, bound)
        ends_episode = schedule[number][1] != episode
        switches = modes.switches if ends_episode else None
        pairs = [hands.get(seat, episode, key) for key in logs_of] if stages or not first_hand else [first_hand]
        transitions: dict[Memories, list[_Transition]] = {}
        for group, (logs, (hand, _)) in enumerate(zip(logs_of.values(), pairs, strict=True)):
            step = _logs(hand.evidence.T)
            for key, rows in _rows_by_memories(hand).items():
                keys = _keys_after(logs, step[:, rows], switches)
                next_key = modes.restart(key) if ends_episode else key
                transitions.setdefault(next_key, []).append(
                    _Transition(group=group, rows=rows, logs=logs, step=step[:, rows], keys=keys)
                )
        endings += sum(len(hand.tells) for hand, _ in pairs)
        if endings + len(transitions) * len(pairs[0][0].tells) > ENDINGS and len(transitions) > 1:
            raise TooManyStates(
                f"The opponents have more memories after {number} of {len(schedule)} hands than can be computed. Use "
                "fewer episodes or hands, or a shorter game."
            )
        successors = [np.zeros((0, 0), np.int32)] * len(pairs)
        next_logs: dict[Memories, Integers] = {}
        next_start = 0
        for next_key, parts in transitions.items():
            distinct = _distinct([row for part in parts for row in part.keys])
            # A state that gives some evidence no chance leads to no state, so a group can be empty.
            if not len(distinct):
                continue
            count += len(distinct)
            if count > limit:
                raise TooManyStates(
                    f"The pool of {len(prior)} has more than {limit:,} states of belief within {len(schedule)} hands. "
                    "Use fewer episodes, hands or opponents, or raise the limit."
                )
            beliefs = np.empty((len(prior), len(distinct)), np.int64)
            # The first transition to a state defines its belief, so the parts are visited backward.
            for part in reversed(parts):
                indices = _key_indices(part.keys, distinct)
                _set_first_of_each(beliefs, part, indices, switches)
                # A key of 0 marks impossible evidence, which has no index among the distinct keys.
                next_states = np.where(part.keys == 0, np.int32(0), indices + np.int32(next_start))
                if isinstance(part.rows, slice):
                    successors[part.group] = next_states
                else:
                    if not successors[part.group].size:
                        shape = len(pairs[part.group][0].evidence), part.keys.shape[1]
                        successors[part.group] = np.zeros(shape, np.int32)
                    successors[part.group][part.rows] = next_states
            next_logs[next_key] = beliefs
            next_start += len(distinct)
        stages.append(_stage(logs_of, pairs, successors))
        logs_of = next_logs
    seat, episode = schedule[-1]
    pairs = [hands.get(seat, episode, key) for key in logs_of] if stages or not first_hand else [first_hand]
    return [*stages, _stage(logs_of, pairs, [np.zeros((0, logs.shape[1]), np.int32) for logs in logs_of.values()])]


def _stage(
    logs_of: Mapping[Memories, Integers],
    pairs: Sequence[tuple[LearnerHand, HandPlan]],
    successors: Sequence[NDArray[np.int32]],
) -> BeliefStage:
    groups, start = list[BeliefGroup](), 0
    for (key, logs), (hand, plan), next_states in zip(logs_of.items(), pairs, successors, strict=True):
        groups.append(
            BeliefGroup(
                memories=key,
                hand=hand,
                plan=plan,
                start=start,
                beliefs=_probabilities(logs),
                successors=next_states,
            )
        )
        start += logs.shape[1]
    return BeliefStage(groups)


def _rows_by_memories(hand: LearnerHand) -> Mapping[Memories, slice | list[int]]:
    """Return the indices of the evidence of a hand by the memories after it."""
    rows: dict[Memories, list[int]] = {}
    for row, memories in enumerate(hand.memories):
        rows.setdefault(memories, []).append(row)
    # A slice, so that nothing is copied without memories.
    return rows if len(rows) > 1 else {memories: slice(None) for memories in rows}


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


def _add_evidence(logs: Integers, step: Integers, switches: Floats | None) -> Integers:
    """Return the beliefs after one piece of evidence (N, 1): (N, S), with the largest entry of a column at 0.

    A column is `_DEAD` throughout if no opponent can have produced the evidence. Afterwards the opponents change with
    the probabilities `switches`, if there are any.
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
    if switches is not None:
        impossible = top == _DEAD
        mixed = switches.T @ np.exp(np.where(posterior == _DEAD, -np.inf, posterior / _UNIT))
        mixed[:, impossible] = 0
        posterior = _logs(mixed / np.where(impossible, 1, mixed.max(axis=0)))
    return posterior


def _keys_after(logs: Integers, step: Integers, switches: Floats | None) -> Keys:
    """Return a hash of each belief after each piece of evidence, (E, S); 0 if the evidence is impossible.

    In a problem with `STATES` states, the probability that any two beliefs share a hash is below 1 in 80,000. This is
    the birthday bound for 63 bits.
    """
    keys = np.zeros((step.shape[1], logs.shape[1]), np.uint64)
    for at in range(0, logs.shape[1], CHUNK):
        part = logs[:, at : at + CHUNK]
        for row, evidence in enumerate(step.T):
            posterior = _add_evidence(part, evidence[:, None], switches)
            key = np.zeros(posterior.shape[1], np.uint64)
            # Adding half of the ignored range rounds to nearest, so noise in the last bits rarely splits a belief.
            for cells in (posterior + 2 ** (_SAME - 1)) >> _SAME:
                key = (key ^ cells.view(np.uint64)) * _ODD
                key ^= key >> np.uint64(29)
            # The lowest bit is set, so that no possible belief has the key 0.
            keys[row, at : at + CHUNK] = np.where(posterior.max(axis=0) == _DEAD, np.uint64(0), key | np.uint64(1))
    return keys


def _distinct(keys: Sequence[Keys]) -> Keys:
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


def _set_first_of_each(
    beliefs: Integers, part: _Transition, indices: NDArray[np.int32], switches: Floats | None
) -> None:
    """Set the belief of each state that a transition leads to.

    Args:
        beliefs: Beliefs before the next hand, (N, S').
        part: The transition.
        indices: State after each piece of evidence, (E, S).
        switches: Probability of each opponent after each opponent, if they change.
    """
    # Several transitions lead to one state, with beliefs that differ in their last bits. The first one counts: rows are
    # visited backward, and numpy keeps the last value that is assigned to a repeated index.
    for row in reversed(range(len(part.keys))):
        possible = np.flatnonzero(part.keys[row])
        source = np.full(beliefs.shape[1], -1, np.int64)
        source[indices[row, possible][::-1]] = possible[::-1]
        reached_states = np.flatnonzero(source >= 0)
        beliefs[:, reached_states] = _add_evidence(
            part.logs[:, source[reached_states]], part.step[:, row : row + 1], switches
        )
