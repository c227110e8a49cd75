"""Reports of a tournament: plain text, JSON, CSV and a heat map. Matplotlib is imported only to draw the heat map."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mage_envs.benchmarks import figures
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, format_delimited, number
from mage_envs.benchmarks.tournaments.results import Cell, Results, RowSeat, Standing
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically, write_json

EXACT = "*"
"""Mark after an exact value."""
LONGEST = 36
"""Maximum number of letters of a name in the heat map."""


def text(results: Results) -> str:
    """Return `blocks` as plain text."""
    return as_text(blocks(results))


def blocks(results: Results) -> list[Block]:
    """Return the ranking and the payoff matrix with the best policy first."""
    settings = results.settings
    hands = f" of {settings.episodes} hands" if settings.episodes > 1 else ""
    head = (
        f"{settings.game}: {len(settings.policies)} policies, {settings.games} matches{hands} per pairing, "
        f"each deal from both seats, seed {settings.seed}"
    )
    lines: list[Block] = [head, ""]
    lines += [f"Ranking by {results.unit} per hand against the others; 95% intervals, {EXACT} exact"]
    lines += [_ranking(results.standings)]
    lines += ["Elo: by matches won (Bradley-Terry); alpha-rank: who stays if each may change to what beats it"]
    names = _order(results)
    columns = ["", *(str(rank) for rank in range(1, len(names) + 1))]
    rows = []
    for rank, row in enumerate(names, start=1):
        rows.append([f"{rank} {row}", *(_cell(results.cells.get((row, column, "both"))) for column in names)])
    lines += ["", f"{results.unit.capitalize()} per hand of the row against the column, mean over both seats"]
    lines += [TextTable(columns, rows)]
    inside, seatings = results.agreement()
    if seatings:
        lines += ["", f"Of {seatings} seatings with an exact value, {inside} have it inside the 95% interval of play."]
    lines += ["", *results.notes] if results.notes else []
    lines += ["", *_failures(results)] if results.failures else []
    return lines


def _failures(results: Results) -> list[str]:
    """Return one line per kind of failure."""
    # One broken policy fails all its pairings with the same message.
    return [
        f"{failure.error} of {' or '.join(map(repr, failure.policies))}: {failure.message}"
        + (f" ({count} pairings)" if count > 1 else "")
        for failure, count in Counter(results.failures.values()).items()
    ]


def _ranking(standings: Sequence[Standing]) -> TextTable:
    columns = ["policy", "payoff", "95% interval", "wins", "draws", "losses", "Elo", "alpha-rank"]
    rows = []
    for rank, s in enumerate(standings, start=1):
        rating = NOT_KNOWN if s.rating is None else f"{s.rating:.0f}"
        shares = (f"{share:.1%}" for share in (s.wins, s.draws, s.losses))
        payoff = f"{number(s.payoff.mean)}{EXACT if s.exact else ''}"
        mass = number(s.alpha_rank)
        rows.append([f"{rank} {s.policy}", payoff, "" if s.exact else _span(s.payoff), *shares, rating, mass])
    return TextTable(columns, rows)


def _span(estimate: Estimate) -> str:
    return NOT_KNOWN if estimate.low is None else f"[{number(estimate.low)}, {number(estimate.high)}]"


def _order(results: Results) -> list[str]:
    """Return the ranked policies, best first, then the policies without a rank."""
    ranked = [standing.policy for standing in results.standings]
    return ranked + [name for name in results.settings.policies if name not in ranked]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return NOT_KNOWN
    if cell.exact is not None:
        return f"{number(cell.exact)}{EXACT}"
    return number(cell.value) if cell.half is None else f"{number(cell.value)}±{number(cell.half).removeprefix('0')}"


# -- files -----------------------------------------------------------------------------------------------------


def save(folder: Path, results: Results) -> list[Path]:
    """Write tournament.json, payoffs.csv and ranking.csv, and payoffs.png if matplotlib is installed."""
    written = [folder / "tournament.json", folder / "payoffs.csv", folder / "ranking.csv"]
    write_json(written[0], results.to_json())
    write_atomically(written[1], payoffs_csv(results))
    write_atomically(written[2], ranking_csv(results))
    if importlib.util.find_spec("matplotlib") is not None and results.cells:
        written.append(folder / "payoffs.png")
        heat_map(written[-1], results)
    return written


def payoffs_csv(results: Results) -> str:
    """Return CSV with one line per row, column and seat of the row."""
    header = ["row", "column", "seat", "mean", "low", "high", "deals", "exact"]
    payoffs = [(c, c.played) for c in results.cells.values()]
    return format_delimited(
        [header, *([c.row, c.column, c.seat, e.mean, e.low, e.high, e.n, c.exact] for c, e in payoffs)]
    )


def ranking_csv(results: Results) -> str:
    """Return CSV with one line per policy, the best first."""
    header = ["place", "policy", "payoff", "low", "high", "exact", "wins", "draws", "losses", "rating", "alpha_rank"]
    rows: list[Sequence[object]] = [header]
    for rank, s in enumerate(results.standings, start=1):
        payoff = (s.payoff.mean, s.payoff.low, s.payoff.high, s.exact)
        rows.append((rank, s.policy, *payoff, s.wins, s.draws, s.losses, s.rating, s.alpha_rank))
    return format_delimited(rows)


# -- the heat map ----------------------------------------------------------------------------------------------


def heat_map(path: Path, results: Results) -> None:
    """Draw a PNG of the row's payoff against the column, over both seats and with the row in the first seat.

    Raises:
        ImportError: If matplotlib is not installed. The message says how to install it.
    """
    names = _order(results)
    labels = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names]
    # All sizes are inches, computed by hand: a constrained layout would shrink the cells of long names.
    side = max(0.62 * len(names), 2.4)
    # Width of the longest name at font size 9.
    label = 0.35 + 0.072 * max(map(len, labels))
    width, height = label + 2 * side + 1.5, side + 0.75 * label + 0.8
    figure = figures.blank(width, height, subject="The heat map", constrained=False)
    bottom, tall, wide = 0.75 * label / height, side / height, side / width
    limits = _limits(results)
    panels: tuple[tuple[RowSeat, str], ...] = (("both", "both seats equally often"), ("first", "row in the first seat"))
    for index, (seat, title) in enumerate(panels):
        axis = figure.add_axes(((label + index * (side + 0.3)) / width, bottom, wide, tall))
        image = _panel(axis, results, names, seat, limits)
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(len(names)), labels, rotation=45, ha="right", rotation_mode="anchor", fontsize=9)
        axis.set_yticks(range(len(names)), labels if index == 0 else [""] * len(names), fontsize=9)
    bar_axis = figure.add_axes(((label + 2 * side + 0.5) / width, bottom + 0.1 * tall, 0.15 / width, 0.8 * tall))
    bar = figure.colorbar(image, cax=bar_axis)
    bar.set_label(f"{results.unit} per hand of the row", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    settings = results.settings
    about = f"{settings.game}, {settings.games} matches per pairing; ± half the 95% interval, {EXACT} exact"
    figure.text(0.5, 1 - 0.25 / height, about, ha="center", va="center", fontsize=10)
    figures.save(figure, path)


def _limits(results: Results) -> tuple[float, float]:
    """Return the limits of the colour scale: symmetric if there is a negative payoff, else from 0."""
    values = [cell.value for cell in results.cells.values()]
    largest = max(map(abs, values)) or 1.0
    return (-largest, largest) if min(values) < 0 else (0.0, largest)


def _panel(axis: Any, results: Results, names: Sequence[str], seat: RowSeat, limits: tuple[float, float]) -> Any:
    count = len(names)
    grid = np.full((count, count), np.nan)
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            cell = results.cells.get((row, column, seat))
            if cell is not None:
                grid[i, j] = cell.value
                _annotate(axis, i, j, cell, limits)
            else:
                axis.text(j, i, NOT_KNOWN, ha="center", va="center", fontsize=7, color="#8a8a8a")
    image = axis.imshow(grid, cmap="RdBu" if limits[0] < 0 else "Blues", vmin=limits[0], vmax=limits[1])
    axis.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=1.5)
    axis.tick_params(which="both", length=0)
    axis.spines[:].set_visible(False)
    return image


def _annotate(axis: Any, i: int, j: int, cell: Cell, limits: tuple[float, float]) -> None:
    # Strong colours need white letters.
    color = "white" if abs(cell.value) > 0.6 * limits[1] else "#202020"
    # Adding 0.0 turns -0.0 into 0.0.
    value = f"{round(cell.value, 2) + 0.0:.2f}{'' if cell.exact is None else EXACT}"
    spread = "" if cell.half is None else f"±{cell.half:.2f}"
    axis.text(j, i - 0.13 * bool(spread), value, ha="center", va="center", fontsize=8, color=color)
    axis.text(j, i + 0.2, spread, ha="center", va="center", fontsize=6, color=color)
