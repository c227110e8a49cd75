"""`python -m dev.peers`: speed beside gym-sokoban, TextArena, GEM and OpenSpiel's Python bot.

Each peer is installed from the package index into its own virtual environment. Every figure is a CPU time inside the
side's own process. The sides take turns, so that a loaded machine slows all of them. Trust the ratios more than the
figures. Also, an environment of TextArena is wrapped as a meta-episode, trained on and evaluated.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.peers import foreign
from dev.peers.foreign import ForeignOutcome
from dev.peers.sides import OURS, PEERS, Child, Side, Unavailable, interpreter
from mage_envs.files.atomic import write_atomically


@dataclass(frozen=True)
class PeerRow:
    """Row of the table: a measurement on every side that has the game."""

    key: str
    """Name in `child.SUBJECTS`."""
    name: str
    unit: str
    figure: str = "rate"
    """Measure: `rate` (more is better) or `p50` (less is better)."""
    scale: float = 1.0
    """Factor that converts a figure to `unit`."""


ROWS = (
    PeerRow("tictactoe", "Tic-Tac-Toe, steps", "per second"),
    PeerRow("kuhn", "Kuhn Poker, steps", "per second"),
    PeerRow("sokoban-moves", "Sokoban, moves without resets", "per second"),
    PeerRow("sokoban-play", "Sokoban, moves with resets", "per second"),
    PeerRow(key="sokoban-reset-6", name="Sokoban, reset, 6x6, 2 boxes", unit="ms, median", figure="p50", scale=1e3),
    PeerRow(key="sokoban-reset-10", name="Sokoban, reset, 10x10, 4 boxes", unit="ms, median", figure="p50", scale=1e3),
    PeerRow("mcts", "MCTS, 100 simulations, moves", "per second"),
)
NOTE = """\
CPU seconds of each side's own process, medians over rounds in which the sides take turns. A step is one player's move
with the other's reply and the resets: ours through gym.make with its default wrappers, TextArena's with its environment
made anew for each episode and a script for both players. Sokoban: one random move a step, episodes of up to 100 moves,
6x6 with 2 boxes; only our rooms have a chosen length of the shortest solution. gym-sokoban makes its smallest image,
then the board's text is put together.
"""
BUSY = """\
Others used the machine meanwhile (load average {load:.1f}): ratios alone are told, and those may be off.
"""


@dataclass(frozen=True)
class SideFigure:
    """Figure of one side in one row."""

    row: str
    side: str
    value: float | None
    """Figure in the row's unit, or None if there is nothing to measure."""
    units: float = 0.0
    """Total number of steps, moves or resets."""
    missing: str = ""
    """Reason if there is no value, else ""."""


def times_as_fast(row: PeerRow, ours: SideFigure, theirs: SideFigure) -> float | None:
    """Return our speed as a multiple of a peer's, or None if one of the figures is missing.

    Args:
        row: Row of both figures.
    """
    if not ours.value or not theirs.value:
        return None
    return ours.value / theirs.value if row.figure == "rate" else theirs.value / ours.value


def measure(
    rows: Sequence[PeerRow], children: Mapping[Side, Child], rounds: int, seconds: float, limit: float
) -> list[SideFigure]:
    """Measure every row on every side, with the sides in turn. If a side fails in a row, the row skips it from then on.

    Args:
        rounds: Number of turns per row, whose median counts.
        seconds: CPU time of one measurement.
        limit: Timeout of one measurement in seconds.
    """
    figures = []
    for row in rows:
        sys.stderr.write(f"measuring: {row.name}\n")
        measured: dict[Side, list[float]] = {side: [] for side in children}
        units, missing = dict.fromkeys(children, 0.0), dict.fromkeys(children, "")
        # The sides alternate within a round, so that other load on the machine hits all of them.
        for _ in range(rounds):
            for side, child in children.items():
                if missing[side]:
                    continue
                try:
                    reply = child.ask(row.key, seconds, limit)
                except Unavailable as error:
                    missing[side] = str(error)
                    continue
                measured[side].append(float(reply[row.figure]) * row.scale)
                units[side] += float(reply["units"])
        for side, values in measured.items():
            value = statistics.median(values) if values else None
            why = "" if values else missing[side]
            figures.append(SideFigure(row=row.key, side=side.name, value=value, units=units[side], missing=why))
    return figures


def number(value: float) -> str:
    """Format a value with three significant digits, or as an integer if it has more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def is_busy(load: float) -> bool:
    """Return True if more processes than cores had work. One of these processes is the measured side."""
    return load > (os.cpu_count() or 1)


def table(
    rows: Sequence[PeerRow], figures: Sequence[SideFigure], failed: Mapping[str, str], ratios_alone: bool = False
) -> str:
    """Return the figures as a Markdown table with one line per row and peer.

    Args:
        failed: Reason for each side that could not be set up. Each has a line below the table.
        ratios_alone: True to leave out the figures and show only their ratios.
    """
    lines = [
        "| what | unit | ours | peer | its figure | we are so many times as fast |",
        "|---|---|---:|---|---:|---:|",
    ]
    for row in rows:
        ours, *others = [figure for figure in figures if figure.row == row.key]
        available = [figure for figure in others if figure.missing != "it has no such game"]
        # A row always has a line: if no peer has the game, the first peer's line says so.
        for peer in available or others[:1] or [ours]:
            own_text = number(ours.value) if ours.value else f"n/a: {ours.missing}"
            peer_text = f"{number(peer.value)} ({number(peer.units)} done)" if peer.value else f"n/a: {peer.missing}"
            ratio = times_as_fast(row, ours, peer)
            if ratios_alone and ratio:
                own_text, peer_text = "", f"({number(peer.units)} done)"
            times = number(ratio) if ratio else ""
            lines.append(f"| {row.name} | {row.unit} | {own_text} | {peer.side} | {peer_text} | {times} |")
    lines += [f"\n{name}: n/a, {reason}." for name, reason in failed.items()]
    return "\n".join(lines) + "\n"


def as_json(
    figures: Sequence[SideFigure], failed: Mapping[str, str], outcome: ForeignOutcome | str, load: float
) -> str:
    """Return all measurements and the machine as JSON. The arguments are those of `as_text`."""
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": load,
    }
    content = {**machine, "failed": dict(failed), "figures": [asdict(figure) for figure in figures]}
    if outcome:
        content["foreign"] = {"missing": outcome} if isinstance(outcome, str) else asdict(outcome)
    return json.dumps(content, indent=1) + "\n"


def as_text(
    rows: Sequence[PeerRow],
    figures: Sequence[SideFigure],
    failed: Mapping[str, str],
    outcome: ForeignOutcome | str,
    load: float,
) -> str:
    """Return the report as Markdown.

    Args:
        failed: Reason for each side that could not be set up.
        outcome: Outcome of the foreign environment, the reason if it failed, or "" if it was not requested.
        load: Load average of the machine during the measurement. If the machine was busy, only ratios are shown.
    """
    parts = []
    if rows and is_busy(load):
        parts.append(f"{table(rows, figures, failed, ratios_alone=True)}\n{NOTE}{BUSY.format(load=load)}")
    elif rows:
        parts.append(f"{table(rows, figures, failed)}\n{NOTE}")
    if outcome:
        name = f"{next(side.name for side in PEERS if side.key == foreign.PEER)}'s GuessTheNumber-v0"
        section = f"{name}: n/a, {outcome}.\n" if isinstance(outcome, str) else outcome.table(name)
        parts.append(f"## A foreign environment\n\n{section}")
    return "\n".join(parts)


def play_foreign(folder: Path, limit: float) -> ForeignOutcome | str:
    """Train and evaluate on the peer's environment. Return the outcome, or the reason if this is not possible."""
    sys.stderr.write("playing: a foreign environment\n")
    side = next(side for side in PEERS if side.key == foreign.PEER)
    try:
        return foreign.play(interpreter(side, folder), limit)
    except Unavailable as error:
        return str(error)


def compare(
    peers: Sequence[Side], rows: Sequence[PeerRow], folder: Path, rounds: int, seconds: float, limit: float
) -> tuple[list[SideFigure], dict[str, str]]:
    """Set up the peers and measure all rows.

    Args:
        folder: Folder of the virtual environments.
        rounds: Number of turns per row.
        seconds: CPU time of one measurement.
        limit: Timeout of one measurement in seconds.

    Returns:
        The figures, and the reason for each peer that is left out.
    """
    failed: dict[str, str] = {}
    # The stack ends all processes, also if a later side fails.
    with ExitStack() as stack:
        children = {OURS: stack.enter_context(Child(OURS, interpreter(OURS, folder)))}
        for side in peers:
            sys.stderr.write(f"setting up: {side.name}\n")
            try:
                children[side] = stack.enter_context(Child(side, interpreter(side, folder)))
            except Unavailable as error:
                failed[side.name] = str(error)
        return measure(rows, children, rounds, seconds, limit), failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m dev.peers", description=__doc__)
    keys, row_keys = [side.key for side in PEERS], [*(row.key for row in ROWS), foreign.ROW]
    parser.add_argument("--peers", nargs="+", choices=keys, default=keys, metavar="PEER", help=", ".join(keys))
    parser.add_argument(
        "--rows", nargs="+", choices=row_keys, default=row_keys, metavar="ROW", help=", ".join(row_keys)
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of turns of each side per row (default: 3)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=1.0,
        help="CPU seconds of one measurement, longer if one unit takes longer (default: 1)",
    )
    parser.add_argument(
        "--limit", type=float, default=120.0, help="timeout of one measurement in seconds (default: 120)"
    )
    parser.add_argument(
        "--foreign-limit",
        type=float,
        default=1200.0,
        help="timeout of the foreign environment in seconds (default: 1200)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FOLDER",
        help="folder of the virtual environments (default: a temporary folder)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the virtual environments, so that --cache can reuse them"
    )
    parser.add_argument(
        "--save",
        type=Path,
        nargs="?",
        const=Path("benchmarks/results"),
        metavar="FOLDER",
        help="write peers.json and peers.md, too (default folder: benchmarks/results)",
    )
    options = parser.parse_args(arguments)
    folder = options.cache or Path(tempfile.mkdtemp(prefix="mage-peers-"))
    peers = [side for side in PEERS if side.key in options.peers]
    rows = [row for row in ROWS if row.key in options.rows]
    with_foreign = foreign.ROW in options.rows and foreign.PEER in options.peers
    try:
        # The load of the last five minutes, before and after: the second value misses load that ended early.
        load = os.getloadavg()[1]
        figures, failed = compare(peers if rows else (), rows, folder, options.rounds, options.seconds, options.limit)
        load = max(load, os.getloadavg()[1])
        outcome = play_foreign(folder, options.foreign_limit) if with_foreign else ""
    finally:
        if options.keep:
            sys.stderr.write(f"The environments stay in {folder}\n")
        else:
            # Only the folders made here are removed, because --cache may name a folder with other files.
            for side in peers:
                shutil.rmtree(folder / side.key, ignore_errors=True)
            if options.cache is None:
                folder.rmdir()
    text = as_text(rows, figures, failed, outcome, load)
    print(text, end="")
    if options.save is not None:
        write_atomically(options.save / "peers.json", as_json(figures, failed, outcome, load))
        write_atomically(options.save / "peers.md", f"# Beside other projects\n\n{text}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
