"""What a tournament says: payoffs with intervals, exact values beside them, and rankings.

A cluster of the intervals is a deal: the matches of all pairings that were dealt the same hands, from both seats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.evaluation.estimates import Estimate, Z, estimate
from benchmarks.tournaments.pairing import Pairing, PairingFailure
from benchmarks.tournaments.settings import Settings

RowSeat = Literal["both", "first", "second"]
SEATS: tuple[RowSeat, ...] = ("both", "first", "second")
EXTRA = 'pip install "mage-envs[tournament]"'
ELO = 400 / np.log(10)
"""Rating points per unit of Bradley and Terry's log-odds."""
EPSILON = 0.001
"""alpha-rank's chance to change to a worse policy."""


@dataclass(frozen=True)
class Cell:
    """What `row` earns per hand against `column` in a seat, or in both equally often."""

    row: str
    column: str
    seat: RowSeat
    played: Estimate
    exact: float | None

    @property
    def value(self) -> float:
        """The exact value where there is one, else the mean."""
        return self.played.mean if self.exact is None else self.exact

    @property
    def half(self) -> float | None:
        """Half the width of the interval that is left; None for an exact value or a single deal."""
        if self.exact is not None or self.played.low is None or self.played.high is None:
            return None
        return (self.played.high - self.played.low) / 2

    @property
    def agrees(self) -> bool | None:
        """Whether the interval holds the exact value; None where one of them is missing."""
        if self.exact is None or self.played.low is None or self.played.high is None:
            return None
        return self.played.low - 1e-9 <= self.exact <= self.played.high + 1e-9


@dataclass(frozen=True)
class Standing:
    """One policy among all others; its matches against itself do not count."""

    policy: str
    payoff: Estimate
    """Mean over the others of what it earns per hand, with exact values where they are known."""
    exact: bool
    """Whether all of it is."""
    wins: float
    """Share of its matches in which it earned more than the other."""
    draws: float
    losses: float
    rating: float | None
    """Bradley-Terry on the Elo scale, mean 1500; None without the library."""
    alpha_rank: float | None
    """Mass in alpha-rank's stationary distribution; None without the library."""


@dataclass(frozen=True)
class Results:
    """All of a tournament. A policy whose pairings failed has no standing."""

    settings: Settings
    unit: str
    cells: Mapping[tuple[str, str, RowSeat], Cell]
    """By row, column and seat; pairings that failed are missing."""
    standings: tuple[Standing, ...]
    """The best first."""
    failures: Mapping[tuple[str, str], PairingFailure]
    notes: tuple[str, ...]
    """What could not be computed, and why."""

    def agreement(self) -> tuple[int, int]:
        """In how many seatings the interval holds the exact value, and of how many."""
        seatings = [c for c in self.cells.values() if c.seat == "first" or (c.seat == "second" and c.row < c.column)]
        found = [c.agrees for c in seatings if c.row <= c.column]
        return sum(agrees is True for agrees in found), sum(agrees is not None for agrees in found)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        inside, known = self.agreement()
        return {
            "settings": self.settings.rules() | {"policies": list(self.settings.policies)},
            "unit": self.unit,
            "ranking": [asdict(standing) for standing in self.standings],
            "payoffs": [asdict(cell) for cell in self.cells.values()],
            "exact_values_inside_their_interval": {"seatings": known, "inside": inside},
            "failures": [{"pairing": list(names), **asdict(failure)} for names, failure in self.failures.items()],
            "notes": list(self.notes),
        }


def score(settings: Settings, outcomes: Mapping[tuple[str, str], Pairing | PairingFailure]) -> Results:
    """The results of what `play_all` gave."""
    game = settings.make_game()
    limits = (game.facts.min_return, game.facts.max_return)
    failures = {names: outcome for names, outcome in outcomes.items() if isinstance(outcome, PairingFailure)}
    pairings = {names: outcome for names, outcome in outcomes.items() if isinstance(outcome, Pairing)}
    cells = {
        (row, column, seat): _cell(pairings[_key(row, column)], row, column, seat, limits)
        for row in settings.policies
        for column in settings.policies
        if _key(row, column) in pairings
        for seat in SEATS
    }
    whole = _without_holes(settings.policies, failures)
    notes: list[str] = []
    ratings = _optional(whole, lambda: _ratings(whole, pairings), "Ratings need choix", notes)
    masses = _optional(
        whole, lambda: _alpha_rank(whole, cells, pairings), "alpha-rank needs matplotlib and networkx", notes
    )
    standings = []
    for name in whole:
        payoff, exact = _payoff(name, whole, cells, pairings, limits)
        wins, draws, losses = _shares(name, whole, pairings)
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
        unit=game.facts.unit,
        cells=cells,
        standings=tuple(standings),
        failures=failures,
        notes=tuple(notes),
    )


def _without_holes(policies: Sequence[str], failures: Mapping[tuple[str, str], PairingFailure]) -> list[str]:
    """The policies that are left if, while a pairing is missing, the one that misses most of them is dropped."""
    left = list(policies)
    while missing := [names for names in failures if set(names) <= set(left)]:
        blamed = [name for names in missing for name in failures[names].policies]
        left.remove(max(left, key=lambda name: (sum(name in names for names in missing), blamed.count(name))))
    return left if len(left) > 1 else []


def _key(row: str, column: str) -> tuple[str, str]:
    return min(row, column), max(row, column)


def _both_seats(values: np.ndarray, names: tuple[str, str], row: str, column: str) -> np.ndarray:
    """Of returns of shape (..., seatings, policies): the row's, shape (..., 2), in the first and the second seat."""
    first, second = values[..., 0, :], values[..., 1, :]
    as_zero = np.stack([first[..., 0], second[..., 0]], axis=-1)
    as_one = np.stack([second[..., 1], first[..., 1]], axis=-1)
    if row == column:
        return np.asarray((as_zero + as_one) / 2)
    return as_zero if row == names[0] else as_one


def _in_seat(values: np.ndarray, seat: RowSeat) -> np.ndarray:
    """Of what `_both_seats` gave: shape (...)."""
    return np.asarray(values.mean(axis=-1) if seat == "both" else values[..., ("first", "second").index(seat)])


def _cell(pairing: Pairing, row: str, column: str, seat: RowSeat, limits: tuple[float, float]) -> Cell:
    def of(values: np.ndarray) -> np.ndarray:
        return _in_seat(_both_seats(values, pairing.names, row, column), seat)

    values = of(pairing.returns)
    # What a policy takes from itself, it pays: that all matches say 0 then needs no interval.
    cancels = row == column and not values.any()
    played = Estimate(0.0, 0.0, 0.0, len(values)) if cancels else interval(values, limits)
    exact = None if pairing.exact is None else float(of(pairing.exact))
    return Cell(row=row, column=column, seat=seat, played=played, exact=exact)


def interval(values: np.ndarray, limits: tuple[float, float]) -> Estimate:
    """The mean of one value per deal, with its 95% interval.

    Where all deals paid the same x, the interval is where the mean may be if deals that pay `limits` are as frequent
    as Wilson's bound allows after none in n: z^2 / (n + z^2).
    """
    n = len(values)
    if n < 2 or values.min() < values.max():
        return estimate(values.tolist(), range(n))
    x = float(values[0])
    unseen = Z**2 / (n + Z**2)
    return Estimate(x, x - unseen * (x - limits[0]), x + unseen * (limits[1] - x), n)


def _payoff(
    name: str,
    whole: Sequence[str],
    cells: Mapping[tuple[str, str, RowSeat], Cell],
    pairings: Mapping[tuple[str, str], Pairing],
    limits: tuple[float, float],
) -> tuple[Estimate, bool]:
    """Mean against all others, with the interval of what is not exactly known, and whether all of it is."""
    per_deal = []
    exact = {other: cells[name, other, "both"].exact for other in whole if other != name}
    for other, value in exact.items():
        pairing = pairings[_key(name, other)]
        played = _both_seats(pairing.returns, pairing.names, name, other).mean(axis=-1)
        per_deal.append(played if value is None else np.full(len(played), value))
    series = np.mean(per_deal, axis=0)
    if None in exact.values():
        return interval(series, limits), False
    return Estimate(float(series[0]), None, None, len(series)), True


def _shares(name: str, whole: Sequence[str], pairings: Mapping[tuple[str, str], Pairing]) -> tuple[float, float, float]:
    """Shares of matches won, drawn and lost against all others."""
    signs = np.array([np.sign(_difference(pairings[_key(name, o)], name, o)) for o in whole if o != name])
    return float((signs > 0).mean()), float((signs == 0).mean()), float((signs < 0).mean())


def _difference(pairing: Pairing, row: str, column: str) -> np.ndarray:
    """What the row earns beyond the column in each match, shape (deals, 2 seatings)."""
    sign = 1 if row == pairing.names[0] else -1
    return np.asarray(sign * (pairing.returns[..., 0] - pairing.returns[..., 1]).round(9))


def _optional(
    whole: Sequence[str], compute: Callable[[], dict[str, float]], need: str, notes: list[str]
) -> dict[str, float]:
    """A ranking, empty (and noted) where its library is missing or nobody is left to rank."""
    if not whole:
        return {}
    try:
        return compute()
    except ModuleNotFoundError as error:
        notes.append(f"{need} ({error.name} is missing): {EXTRA}")
        return {}


def _ratings(whole: Sequence[str], pairings: Mapping[tuple[str, str], Pairing]) -> dict[str, float]:
    """Maximum likelihood of Bradley and Terry's model, draws counted as half a win and half a loss.

    Each pairing counts one more match, drawn, so that a policy that never lost has a rating.
    """
    import choix

    wins = np.zeros((len(whole), len(whole)))
    for i, row in enumerate(whole):
        for j, column in enumerate(whole):
            if i != j:
                ahead = np.sign(_difference(pairings[_key(row, column)], row, column))
                wins[i, j] = ((1 + ahead) / 2).sum() + 0.5
    strengths = choix.ilsr_pairwise_dense(wins, max_iter=10_000)
    ratings = 1500 + ELO * (strengths - strengths.mean())
    return {name: float(rating) for name, rating in zip(whole, ratings, strict=True)}


def _alpha_rank(
    whole: Sequence[str], cells: Mapping[tuple[str, str, RowSeat], Cell], pairings: Mapping[tuple[str, str], Pairing]
) -> dict[str, float]:
    """OpenSpiel's alpha-rank of the game of choosing a policy, both seats equally likely, alpha infinite.

    It asks only who of two earns more against the other; where the interval of that difference holds 0, neither.
    """
    from open_spiel.python.egt import alpharank

    better = np.zeros((len(whole), len(whole)))
    for i, row in enumerate(whole):
        for j, column in enumerate(whole):
            if i < j:
                sign = _who_earns_more(row, column, cells, pairings)
                better[i, j], better[j, i] = sign, -sign
    masses = alpharank.compute([better], use_inf_alpha=True, inf_alpha_eps=EPSILON)[2]
    return {name: float(mass) for name, mass in zip(whole, masses, strict=True)}


def _who_earns_more(
    row: str, column: str, cells: Mapping[tuple[str, str, RowSeat], Cell], pairings: Mapping[tuple[str, str], Pairing]
) -> int:
    """1 for the row, -1 for the column, 0 where that is not known or neither does."""
    exact = cells[row, column, "both"].exact, cells[column, row, "both"].exact
    if exact[0] is not None and exact[1] is not None:
        difference = exact[0] - exact[1]
        return 0 if abs(difference) < 1e-9 else 1 if difference > 0 else -1
    per_deal = _difference(pairings[_key(row, column)], row, column).mean(axis=-1)
    found = estimate(per_deal.tolist(), range(len(per_deal)))
    if found.low is None or found.high is None:
        return 0
    return 1 if found.low > 0 else -1 if found.high < 0 else 0
