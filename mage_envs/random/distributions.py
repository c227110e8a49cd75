"""Action probabilities, and the only way to draw from them: a uniform number compared with rising thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cuts = tuple[tuple[tuple[float, str], ...], str]
"""Actions with rising thresholds, ((threshold, action), ...), and the action above the last threshold."""
_TOLERANCE = 1e-9


def check_row(state: str, row: Mapping[str, float]) -> None:
    """Raise `ValueError` unless `row` is a probability distribution."""
    # `not ... <=` and not `>`, so that a sum of NaN is refused too.
    if any(probability < 0 for probability in row.values()) or not abs(sum(row.values()) - 1) <= _TOLERANCE:
        raise ValueError(f"Probabilities at {state!r} must be at least 0 and sum to 1, got {dict(row)}.")


def cuts_of(state: str, row: Mapping[str, float], legal_actions: Sequence[str]) -> Cuts:
    """Return the thresholds of a distribution.

    Args:
        state: Information state, for errors.
        row: Probability of each action; missing actions have 0.
        legal_actions: Legal actions, in the order of the thresholds.

    Raises:
        ValueError: If an illegal action is possible, or if `row` is not a probability distribution.
    """
    if unknown := [action for action, chance in row.items() if chance > 0 and action not in legal_actions]:
        raise ValueError(f"{unknown[0]!r} at {state!r} is not legal; choose one of: {', '.join(legal_actions)}.")
    check_row(state, row)
    possible = [action for action in legal_actions if row.get(action, 0.0) > 0]
    # The last action has no threshold: rounding errors of the sum must not leave a number without an action.
    cuts, total = [], 0.0
    for action in possible[:-1]:
        total += row[action]
        cuts.append((total, action))
    return tuple(cuts), possible[-1]


def pick(cuts: Cuts, draw: float) -> str:
    """Return the action for a uniform number in [0, 1)."""
    thresholds, last = cuts
    for threshold, action in thresholds:
        if draw < threshold:
            return action
    return last
