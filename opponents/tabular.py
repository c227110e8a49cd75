"""Policies that depend on the information state alone, as a rule or as a table of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.hand import Cuts, check_row, cuts_of, pick

Rule = Callable[[Turn], Mapping[str, float]]
"""Function from a turn to the probabilities of its actions (missing ones are 0).

It may use only facts that follow from the information state. The policy can be pickled if the rule is a module-level
function or a `functools.partial` of one.
"""


class RulePolicy(Policy):
    """A policy that follows a rule, with the rule's probabilities cached by information state.

    It draws one `rng.random()` per decision, or nothing if one action is certain. Call `reset` before `act`.
    """

    follows_information_state = True

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._cuts: dict[str, Cuts] = {}
        """Cumulative probabilities by information state."""
        self._rows: dict[str, dict[str, float]] = {}
        self._rng: np.random.Generator

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        cuts = self._cuts.get(turn.information_state)
        if cuts is None:
            row = self.distribution(turn)
            cuts = self._cuts[turn.information_state] = cuts_of(turn.information_state, row, turn.legal_actions)
        return pick(cuts, self._rng.random()) if cuts[0] else cuts[1]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return the probability of every action with a positive probability."""
        row = self._rows.get(turn.information_state)
        if row is None:
            row = {action: float(chance) for action, chance in self._rule(turn).items() if chance != 0}
            # Called for its checks alone: it raises unless the row is a distribution over the legal actions.
            cuts_of(turn.information_state, row, turn.legal_actions)
            self._rows[turn.information_state] = row
        # A copy, because a caller that changed the row would change the policy.
        return dict(row)


def probability_of(opponent: str, value: float) -> float:
    """Return an opponent's argument; raise `ValueError` unless it is a probability."""
    if not 0 <= value <= 1:
        raise ValueError(f"Opponent {opponent!r}: the probability must be between 0 and 1, got {value}.")
    return value


def look_up(table: Mapping[str, Mapping[str, float]], turn: Turn) -> Mapping[str, float]:
    """Return the row of `table` for a turn; raise `ValueError` if the table has none."""
    try:
        return table[turn.information_state]
    except KeyError:
        states = ", ".join(sorted(table)[:5])
        raise ValueError(
            f"The policy's table has no row for information state {turn.information_state!r}; its rows are "
            f"{states}, ..."
        ) from None


class TabularPolicy(RulePolicy):
    """A policy from a table: information state to action to probability.

    The table is copied and checked: a row that is not a distribution raises `ValueError`. If every row has one certain
    action, the policy never draws a random number.
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        rows = {state: {a: float(p) for a, p in row.items() if p != 0} for state, row in table.items()}
        for state, row in rows.items():
            check_row(state, row)
        super().__init__(partial(look_up, rows))
        self.table: Mapping[str, Mapping[str, float]] = rows
