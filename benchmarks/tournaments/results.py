"""Results of a tournament: payoffs with confidence intervals, exact values and rankings.

The intervals are clustered by deal: a cluster has the matches of all pairings with the same cards, from both seats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, Z, estimate
from mage_envs.benchmarks.tournaments.pairing import Pairing, PairingFailure
from mage_envs.benchmarks.tournaments.tournament_settings import Settings

RowSeat = Literal["both", "first", "second"]
SEATS: tuple[RowSeat, ...] = ("both", "first", "second")
EXTRA = 'pip install "mage-envs[tournament]"'
ELO = 400 / np.log(10)
"""Rating points per unit of log-odds in the Bradley-Terry model."""
EPSILON = 0.001
"""Probability in alpha-rank of a change to a worse policy."""


@dataclass(frozen=True)
class Cell:
    """Payoff per hand of `row` against `column`, in one seat or in both equally often."""

    row: str
    column: str
    seat: RowSeat
    played: Estimate
    exact: float | None

    @property
    def value(self) -> float:
        """The exact value if it is known, else the mean of play."""
        return self.played.mean if self.exact is None else self.exact

    @property
    def half(self) -> float | None:
        """Half the width of the confidence interval, or None for an exact value or a single deal."""
        return None if self.exact is not None else self.played.half

    @property
    def agrees(self) -> bool | None:
        """True if the interval contains the exact value, or None if one of them is missing."""
        if self.exact is None or self.played.low is None or self.played.high is None:
            return None
        # The tolerance covers floating-point noise if all deals paid exactly the expectation.
        return self.played.low - 1e-9 <= self.exact <= self.played.high + 1e-9


@dataclass(frozen=True)
class Standing:
    """Rank of one policy among all others. Its matches against itself do not count."""

    policy: str
    payoff: Estimate
    """Mean over the others of its payoff per hand, with exact values if they are known."""
    exact: bool
    """True if all of these payoffs are exact."""
    wins: float
    """Share of its matches in which it earned more than the other policy."""
    draws: float
    losses: float
    rating: float | None
    """Bradley-Terry rating on the Elo scale with mean 1500, or None if choix is not installed."""
    alpha_rank: float | None
    """Mass in alpha-rank's stationary distribution, or None if its libraries are not installed."""


@dataclass(frozen=True)
class Results:
    """All results of a tournament. A policy whose pairings failed has no standing."""

    settings: Settings
    unit: str
    cells: Mapping[tuple[str, str, RowSeat], Cell]
    """Cells by row, column and seat. Failed pairings are missing."""
    standings: tuple[Standing, ...]
    """Standings, the best policy first."""
    failures: Mapping[tuple[str, str], PairingFailure]
    notes: tuple[str, ...]
    """Values that could not be computed, with the reason."""

    def agreement(self) -> tuple[int, int]:
        """Return (seatings whose interval contains the exact value, seatings with an exact value and an interval)."""
        # Each seating is two cells, one per policy, so half of them are counted.
        seatings = [c for c in self.cells.values() if c.seat == "first" or (c.seat == "second" and c.row < c.column)]
        agreements = [c.agrees for c in seatings if c.row <= c.column]
        return sum(agrees is True for agrees in agreements), sum(agrees is not None for agrees in agreements)

    def to_json(self) -> dict[str, Any]:
        """Return the results as plain JSON values."""
        inside, seatings = self.agreement()
        return {
            "settings": self.settings.rules() | {"policies": list(self.settings.policies)},
            "unit": self.unit,
            "ranking": [asdict(standing) for standing in self.standings],
            "payoffs": [asdict(cell) for cell in self.cells.values()],
            "exact_values_inside_their_interval": {"seatings": seatings, "inside": inside},
            "failures": [{"pairing": list(names), **asdict(failure)} for names, failure in self.failures.items()],
            "notes": list(self.notes),
        }


def score(settings: Settings, outcomes: Mapping[tuple[str, str], Pairing | PairingFailure]) -> Results:
    """Return the results for the outcomes of `play_all`."""
    game = settings.make_game()
    limits = (game.spec.min_return, game.spec.max_return)
    failures = {names: outcome for names, outcome in outcomes.items() if isinstance(outcome, PairingFailure)}
    pairings = {names: outcome for names, outcome in outcomes.items() if isinstance(outcome, Pairing)}
    cells = {
        (row, column, seat): _cell(pairings[_key(row, column)], row, column, seat, limits)
        for row in settings.policies
        for column in settings.policies
        if _key(row, column) in pairings
        for seat in SEATS
    }
    # Rankings compare means over the same others, so they need a complete payoff matrix.
    ranked_policies = _without_holes(settings.policies, failures)
    notes: list[str] = []
    ratings = _optional(ranked_policies, lambda: _ratings(ranked_policies, pairings), "Ratings need choix", notes)
    masses = _optional(
        ranked_policies,
        lambda: _alpha_rank(ranked_policies, cells, pairings),
        "alpha-rank needs matplotlib and networkx",
        notes,
    )
    standings = []
    for name in ranked_policies:
        payoff, exact = _payoff(name, ranked_policies, cells, pairings, limits)
        wins, draws, losses = _shares(name, ranked_policies, pairings)
        standings.append(
            Standing(
                policy=name,
                payoff=payoff,
                exact=exact,
                wins=wins,
                draws=draws,
                losses=losses,
                rating=ratings.get(name),
                alpha_rank=masses.get(name),
            )
        )
    standings.sort(key=lambda standing: (-standing.payoff.mean, standing.policy))
    return Results(
        settings=settings,
        unit=game.spec.unit,
        cells=cells,
        standings=tuple(standings),
        failures=failures,
        notes=tuple(notes),
    )


def _without_holes(policies: Sequence[str], failures: Mapping[tuple[str, str], PairingFailure]) -> list[str]:
    """Return policies without a missing pairing: repeatedly drop the policy that misses the most pairings."""
    remaining = list(policies)
    while missing := [names for names in failures if set(names) <= set(remaining)]:
        blamed = [name for names in missing for name in failures[names].policies]
        # Ties go to the policy that was blamed more often: a pairing's failure usually names the one at fault.
        remaining.remove(max(remaining, key=lambda name: (sum(name in names for names in missing), blamed.count(name))))
    return remaining if len(remaining) > 1 else []


def _key(row: str, column: str) -> tuple[str, str]:
    return min(row, column), max(row, column)


def _both_seats(values: np.ndarray, names: tuple[str, str], row: str, column: str) -> np.ndarray:
    """Return the row's returns in the first and the second seat, shape (..., 2).

    `values` has the shape (..., 2 seatings, 2 policies).
    """
    first_seating, second_seating = values[..., 0, :], values[..., 1, :]
    as_zero = np.stack([first_seating[..., 0], second_seating[..., 0]], axis=-1)
    as_one = np.stack([second_seating[..., 1], first_seating[..., 1]], axis=-1)
    # Against itself a policy has both roles, so their mean is its return.
    if row == column:
        return np.asarray((as_zero + as_one) / 2)
    return as_zero if row == names[0] else as_one


def _in_seat(values: np.ndarray, seat: RowSeat) -> np.ndarray:
    """Return the returns in one seat, or their mean over both, from the values of `_both_seats`; shape (...)."""
    return np.asarray(values.mean(axis=-1) if seat == "both" else values[..., ("first", "second").index(seat)])


def _cell(pairing: Pairing, row: str, column: str, seat: RowSeat, limits: tuple[float, float]) -> Cell:
    def of(values: np.ndarray) -> np.ndarray:
        return _in_seat(_both_seats(values, pairing.names, row, column), seat)

    values = of(pairing.returns)
    # In a zero-sum game a policy's payoff against itself is exactly 0, which needs no interval.
    cancels = row == column and not values.any()
    payoff = Estimate(0.0, 0.0, 0.0, len(values)) if cancels else interval(values, limits)
    exact = None if pairing.exact is None else float(of(pairing.exact))
    return Cell(row=row, column=column, seat=seat, played=payoff, exact=exact)


def interval(values: np.ndarray, limits: tuple[float, float]) -> Estimate:
    """Return the mean of one value per deal with its 95% interval.

    If all n deals paid the same x, the interval assumes unseen deals that pay one of the `limits`. Their share is
    Wilson's upper bound after none in n: z^2 / (n + z^2).
    """
    n = len(values)
    # Equal values have a variance of 0, and the usual interval would claim certainty.
    if n < 2 or values.min() < values.max():
        return estimate(values.tolist(), range(n))
    x = float(values[0])
    unseen = Z**2 / (n + Z**2)
    return Estimate(x, x - unseen * (x - limits[0]), x + unseen * (limits[1] - x), n)


def _payoff(
    name: str,
    policies: Sequence[str],
    cells: Mapping[tuple[str, str, RowSeat], Cell],
    pairings: Mapping[tuple[str, str], Pairing],
    limits: tuple[float, float],
) -> tuple[Estimate, bool]:
    """Return the mean payoff against all others, and True if it is exact. The interval covers only inexact parts."""
    per_deal = []
    exact = {opponent: cells[name, opponent, "both"].exact for opponent in policies if opponent != name}
    for opponent, value in exact.items():
        pairing = pairings[_key(name, opponent)]
        returns = _both_seats(pairing.returns, pairing.names, name, opponent).mean(axis=-1)
        per_deal.append(returns if value is None else np.full(len(returns), value))
    # Averaged per deal first, because all pairings share their deals and are not independent.
    series = np.mean(per_deal, axis=0)
    if None in exact.values():
        return interval(series, limits), False
    return Estimate(float(series[0]), None, None, len(series)), True


def _shares(
    name: str, policies: Sequence[str], pairings: Mapping[tuple[str, str], Pairing]
) -> tuple[float, float, float]:
    """Return the shares of matches won, drawn and lost against all others."""
    signs = np.array([np.sign(_difference(pairings[_key(name, o)], name, o)) for o in policies if o != name])
    return float((signs > 0).mean()), float((signs == 0).mean()), float((signs < 0).mean())


def _difference(pairing: Pairing, row: str, column: str) -> np.ndarray:
    """Return the row's return minus the column's return in each match, shape (deals, 2 seatings)."""
    sign = 1 if row == pairing.names[0] else -1
    # Rounded, so that means of equal returns in another order still count as a draw.
    return np.asarray(sign * (pairing.returns[..., 0] - pairing.returns[..., 1]).round(9))


def _optional(
    policies: Sequence[str], compute: Callable[[], dict[str, float]], need: str, notes: list[str]
) -> dict[str, float]:
    """Return a ranking, or an empty one if no policy is left or a library is missing. The latter adds a note."""
    if not policies:
        return {}
    try:
        return compute()
    except ModuleNotFoundError as error:
        notes.append(f"{need} ({error.name} is missing): {EXTRA}")
        return {}


def _ratings(policies: Sequence[str], pairings: Mapping[tuple[str, str], Pairing]) -> dict[str, float]:
    """Return maximum-likelihood ratings of the Bradley-Terry model. A draw counts as half a win and half a loss.

    Each pairing has one additional drawn match, because a policy that never lost would have an infinite rating.
    """
    import choix

    wins = np.zeros((len(policies), len(policies)))
    for i, row in enumerate(policies):
        for j, column in enumerate(policies):
            if i != j:
                ahead = np.sign(_difference(pairings[_key(row, column)], row, column))
                wins[i, j] = ((1 + ahead) / 2).sum() + 0.5
    strengths = choix.ilsr_pairwise_dense(wins, max_iter=10_000)
    ratings = 1500 + ELO * (strengths - strengths.mean())
    return {name: float(rating) for name, rating in zip(policies, ratings, strict=True)}


def _alpha_rank(
    policies: Sequence[str], cells: Mapping[tuple[str, str, RowSeat], Cell], pairings: Mapping[tuple[str, str], Pairing]
) -> dict[str, float]:
    """Return the masses of OpenSpiel's alpha-rank for the meta-game of choosing a policy, with infinite alpha.

    Both seats are equally likely. Alpha-rank uses only the sign of the payoff difference of two policies. The sign is 0
    if the interval of the difference contains 0.
    """
    from open_spiel.python.egt import alpharank

    better = np.zeros((len(policies), len(policies)))
    for i, row in enumerate(policies):
        for j, column in enumerate(policies):
            if i < j:
                sign = _who_earns_more(row, column, cells, pairings)
                better[i, j], better[j, i] = sign, -sign
    masses = alpharank.compute([better], use_inf_alpha=True, inf_alpha_eps=EPSILON)[2]
    return {name: float(mass) for name, mass in zip(policies, masses, strict=True)}


def _who_earns_more(
    row: str, column: str, cells: Mapping[tuple[str, str, RowSeat], Cell], pairings: Mapping[tuple[str, str], Pairing]
) -> int:
    """Return 1 if the row earns more, -1 if the column does, and 0 if neither does or it is not known."""
    exact = cells[row, column, "both"].exact, cells[column, row, "both"].exact
    if exact[0] is not None and exact[1] is not None:
        difference = exact[0] - exact[1]
        # Below this, the difference is rounding of the sums over the game tree.
        if abs(difference) < 1e-9:
            return 0
        return 1 if difference > 0 else -1
    per_deal = _difference(pairings[_key(row, column)], row, column).mean(axis=-1)
    mean_difference = estimate(per_deal.tolist(), range(len(per_deal)))
    if mean_difference.low is None or mean_difference.high is None:
        return 0
    if mean_difference.low > 0:
        return 1
    return -1 if mean_difference.high < 0 else 0
