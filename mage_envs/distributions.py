"""Action probabilities, and the one way to draw from them: a uniform number against rising thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cuts = tuple[tuple[tuple[float, str], ...], str]
"""((threshold, action), ...) in rising order, and the action for numbers above the last threshold."""
_TOLERANCE = 1e-9


def check_row(state: str, row: Mapping[str, float]) -> None:
    """Raises `ValueError` unless `row` is a probability distribution."""
    if any(probability < 0 for probability in row.values()) or not abs(sum(row.values()) - 1) <= _TOLERANCE:
        raise ValueError(f"Probabilities at {state!r} must be at least 0 and sum to 1, got {dict(row)}.")


def cuts_of(state: str, row: Mapping[str, float], legal_actions: Sequence[str]) -> Cuts:
    """The thresholds of a distribution, in the order of `legal_actions`; `state` names it in errors."""
    if unknown := [action for action, chance in row.items() if chance > 0 and action not in legal_actions]:
        raise ValueError(f"{unknown[0]!r} at {state!r} is not legal; choose one of: {', '.join(legal_actions)}.")
    check_row(state, row)
    possible = [action for action in legal_actions if row.get(action, 0.0) > 0]
    cuts, total = [], 0.0
    for action in possible[:-1]:
        total += row[action]
        cuts.append((total, action))
    return tuple(cuts), possible[-1]


def pick(cuts: Cuts, draw: float) -> str:
    """The action for a uniform number in [0, 1)."""
    thresholds, last = cuts
    for threshold, action in thresholds:
        if draw < threshold:
            return action
    return last
