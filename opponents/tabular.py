"""Policies that are a function of the information state: given as a rule, or as a table of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from mage_envs.core import Turn

Rule = Callable[[Turn], Mapping[str, float]]
"""Maps a turn to the probabilities of its actions (missing ones are 0).

It may look at anything that follows from the information state, and at nothing else. A module-level function,
or a `functools.partial` of one, keeps the policy picklable.
"""

_TOLERANCE = 1e-9


def check_row(state: str, row: Mapping[str, float]) -> None:
    """Raises `ValueError` unless `row` is a probability distribution."""
    if any(probability < 0 for probability in row.values()) or not abs(sum(row.values()) - 1) <= _TOLERANCE:
        raise ValueError(f"Probabilities at {state!r} must be at least 0 and sum to 1, got {dict(row)}.")


class RulePolicy:
    """Plays by a rule, which is asked once per information state and then remembered.

    A deterministic rule gives one action probability 1; then `act` is one dict lookup and never uses the
    generator. Any other draws exactly one `rng.random()` per decision, forced ones included. `reset` comes first.
    """

    def __init__(self, rule: Rule, *, deterministic: bool = False) -> None:
        self.deterministic = deterministic
        self._rule = rule
        self._rows: dict[str, dict[str, float]] = {}
        self._moves: dict[str, str] = {}
        self._cuts: dict[str, tuple[tuple[tuple[float, str], ...], str]] = {}
        """(threshold, action) of all possible actions but the last, and the last."""
        self._rng: np.random.Generator

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        state = turn.information_state
        if self.deterministic:
            if state not in self._moves:
                self._learn(turn)
            return self._moves[state]
        if state not in self._cuts:
            self._learn(turn)
        draw = self._rng.random()
        cuts, last = self._cuts[state]
        for threshold, action in cuts:
            if draw < threshold:
                return action
        return last

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Probability of every action that is played at all."""
        if turn.information_state not in self._rows:
            self._learn(turn)
        return dict(self._rows[turn.information_state])

    def cuts(self, turn: Turn) -> tuple[tuple[tuple[float, str], ...], str]:
        """The thresholds that a draw is compared with, and the action above the last one."""
        if turn.information_state not in self._cuts:
            self._learn(turn)
        return self._cuts[turn.information_state]

    def _learn(self, turn: Turn) -> None:
        state = turn.information_state
        row = {action: float(probability) for action, probability in self._rule(turn).items() if probability != 0}
        check_row(state, row)
        for action in row:
            if action not in turn.legal_actions:
                legal = ", ".join(turn.legal_actions)
                raise ValueError(f"The policy plays {action!r} at {state!r}, where only these are legal: {legal}.")
        if self.deterministic and len(row) > 1:
            raise ValueError(f"A deterministic policy must play one action at {state!r}, got {row}.")
        *first, last = row
        cuts, total = [], 0.0
        for action in first:
            total += row[action]
            cuts.append((total, action))
        self._moves[state] = last
        self._cuts[state] = (tuple(cuts), last)
        self._rows[state] = row


def look_up(table: Mapping[str, Mapping[str, float]], turn: Turn) -> Mapping[str, float]:
    """The rule that reads `table`; raises `ValueError` where the table has no row."""
    try:
        return table[turn.information_state]
    except KeyError:
        known = ", ".join(sorted(table)[:5])
        raise ValueError(
            f"The policy's table has no row for information state {turn.information_state!r}; it knows {known}, ..."
        ) from None


class TabularPolicy(RulePolicy):
    """Plays from a table: information state to action to probability.

    The table is copied and checked; `ValueError` names the first row that is no distribution. A table whose
    rows each hold one sure action makes a deterministic policy.
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        rows = {state: {a: float(p) for a, p in row.items() if p != 0} for state, row in table.items()}
        for state, row in rows.items():
            check_row(state, row)
        super().__init__(partial(look_up, rows), deterministic=all(len(row) == 1 for row in rows.values()))
        self.table: Mapping[str, Mapping[str, float]] = rows
