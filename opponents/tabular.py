"""Policies that are a function of the information state: given as a rule, or as a table of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from mage_envs.core import Turn
from mage_envs.distributions import Cuts, check_row, cuts_of, pick

Rule = Callable[[Turn], Mapping[str, float]]
"""Maps a turn to the probabilities of its actions (missing ones are 0).

It may look at anything that follows from the information state, and at nothing else. A module-level function,
or a `functools.partial` of one, keeps the policy picklable.
"""


class RulePolicy:
    """Plays by a rule, which is asked once per information state and then remembered.

    One `rng.random()` a decision, none where the rule is certain. `reset` comes first.
    """

    follows_information_state = True

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._cuts: dict[str, Cuts] = {}
        """By information state."""
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
        """Probability of every action that is played at all."""
        row = self._rows.get(turn.information_state)
        if row is None:
            row = {action: float(chance) for action, chance in self._rule(turn).items() if chance != 0}
            cuts_of(turn.information_state, row, turn.legal_actions)
            self._rows[turn.information_state] = row
        return dict(row)


def probability_of(opponent: str, value: float) -> float:
    """An opponent's argument that is a probability; raises `ValueError` where it is none."""
    if not 0 <= value <= 1:
        raise ValueError(f"Opponent {opponent!r}: {value} is no probability; it must be from 0 to 1.")
    return value


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
    rows each hold one sure action never draws.
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        rows = {state: {a: float(p) for a, p in row.items() if p != 0} for state, row in table.items()}
        for state, row in rows.items():
            check_row(state, row)
        super().__init__(partial(look_up, rows))
        self.table: Mapping[str, Mapping[str, float]] = rows
