"""Steps, starts and memory of ALFWorld's fast engine beside the stock engine (`python -m dev.speed.alfworld`).

Times are CPU times of this process. The two engines take turns on the same games and commands, so that a loaded machine
slows both. Their results are compared, so that a wrong result never counts as fast. If ALFWORLD_DATA is not set, the
games are generated, with the size of official games.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mage_envs.files.atomic import write_atomically
from mage_envs.games.alfworld.engine import Engine, EngineState, FastEngine
from mage_envs.games.alfworld.game import StockEngine
from mage_envs.games.alfworld.gamefile import GameLike
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES

ENVIRONMENTS = 256
EPISODE = 30
"""Number of steps of an episode of random play."""
SHARED = 6
"""Number of games that both engines play: one of each task type."""
CACHE = "MAGE_ENVS_CACHE"
MILLION = 1_000_000


@dataclass(frozen=True)
class Line:
    """Measured figure."""

    name: str
    value: float
    unit: str
    stock: float | None = None
    """Figure of the stock engine."""
    target: str = ""
    bound: float | None = None
    """Target as a number."""
    most: bool = False
    """True if less is better, so that the target is an upper limit."""

    @property
    def times(self) -> float | None:
        """Factor by which the figure is better than that of the stock engine."""
        if self.stock is None:
            return None
        return self.stock / self.value if self.most else self.value / self.stock

    @property
    def met(self) -> bool | None:
        """True if the target is met, None if there is none."""
        if self.bound is None:
            return None
        return self.value <= self.bound if self.most else self.value >= self.bound


def all_games(count: int) -> list[GameLike]:
    """Return official games if ALFWORLD_DATA is set and has any, else generated games of all task types in turn."""
    root = os.environ.get("ALFWORLD_DATA")
    official = sorted(Path(root).rglob("game.tw-pddl"))[:count] if root else []
    return list(official) or [
        make_game("train", "official-like", TASK_TYPES[number % 6], number // 6).data() for number in range(count)
    ]


class Clock:
    """CPU seconds of each call of one kind."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        start_time = time.process_time()
        yield
        self.seconds.append(time.process_time() - start_time)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)


@dataclass
class Clocks:
    """Clocks of one engine."""

    start: Clock = field(default_factory=Clock)
    """Time to load and reset a game that was played before."""
    restart: Clock = field(default_factory=Clock)
    """Time to reset the game that is loaded."""
    step: Clock = field(default_factory=Clock)


def begin(engine: Engine, game: GameLike, clocks: Clocks) -> EngineState:
    """Load and start a game, and start it once more."""
    with clocks.start.running():
        engine.load(game)
        engine.reset()
    with clocks.restart.running():
        return engine.reset()


def side_by_side(games: Sequence[GameLike], steps: int) -> tuple[Clocks, Clocks]:
    """Play `steps` random commands in each game, the same in both engines, and return the clocks (fast, stock).

    Raises RuntimeError if the engines differ.
    """
    rng = np.random.default_rng(0)
    engines: tuple[tuple[Engine, Clocks], ...] = ((FastEngine(), Clocks()), (StockEngine(), Clocks()))
    # `start` measures games that this process has played before, so the fast engine plays each of them once.
    for game in games:
        engines[0][0].load(game)
        engines[0][0].reset()
    # The stock engine's lazy imports do not count.
    engines[1][0].load(games[0])
    for game in games:
        fast_state, stock_state = (begin(engine, game, clocks) for engine, clocks in engines)
        agree(fast_state, stock_state)
        for _ in range(steps):
            command = fast_state.admissible_commands[int(rng.integers(len(fast_state.admissible_commands)))]
            with engines[0][1].step.running():
                fast_state = engines[0][0].step(command)
            with engines[1][1].step.running():
                stock_state = engines[1][0].step(command)
            agree(fast_state, stock_state)
    for engine, _ in engines:
        engine.close()
    return engines[0][1], engines[1][1]


def agree(fast: EngineState, stock: EngineState) -> None:
    """Raise RuntimeError if the states of the engines differ."""
    if fast != stock:
        raise RuntimeError(f"The engines differ: {fast} and {stock}.")


def steady_rate(games: Sequence[GameLike], passes: int) -> float:
    """Return the fast engine's steps per CPU second in whole episodes of random play. Starts do not count."""
    rng = np.random.default_rng(1)
    engine, clock = FastEngine(), Clock()
    for _ in range(passes):
        for game in games:
            engine.load(game)
            state = engine.reset()
            # Drawn before the clock starts, so that only the engine is timed.
            draws = rng.random(EPISODE)
            with clock.running():
                for draw in draws:
                    commands = state.admissible_commands
                    state = engine.step(commands[int(draw * len(commands))])
    engine.close()
    return EPISODE / clock.mean


def first_loads(games: Sequence[GameLike]) -> tuple[float, float]:
    """Return the mean CPU seconds to translate a game, and to read a translated game from disk."""
    previous_cache = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        # Two child processes share the cache folder: the first fills it and the second reads it.
        translated, read = (in_child(lambda: loading(games)) for _ in range(2))
    if previous_cache is None:
        del os.environ[CACHE]
    else:
        os.environ[CACHE] = previous_cache
    return translated, read


def loading(games: Sequence[GameLike]) -> float:
    """Return the mean CPU seconds to load a game in this process."""
    engine, clock = FastEngine(), Clock()
    # A load of another game before the clock starts, because lazy imports do not count.
    engine.load(make_game("train", "tiny", TASK_TYPES[0], 0).data())
    for game in games:
        with clock.running():
            engine.load(game)
    return clock.mean


def in_child(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, a JSON value, from a forked child process. Its caches end with the child."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sending, json.dumps(work()).encode())
        # Without clean-up, which belongs to the parent process.
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def resident() -> float:
    """Return the resident memory of this process in MB (Linux), or NaN if it is not reported."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 / MILLION if match else math.nan


def count_pinned() -> float:
    """Return the size of deleted temporary files that are still mapped as libraries, in MB (Linux)."""
    sizes: dict[str, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libdownward" in line:
            addresses, _, offset, _, inode, _ = line.split(maxsplit=5)
            # A file has several mappings. The end of the last one is the size of the file.
            begins, ends = (int(word, 16) for word in addresses.split("-"))
            sizes[inode] = max(sizes.get(inode, 0), int(offset, 16) + ends - begins)
    return sum(sizes.values()) / MILLION


def space(games: Sequence[GameLike]) -> tuple[float, float]:
    """Return MB of memory and of temporary files of this process, with 256 environments after an episode in each."""
    rng = np.random.default_rng(2)
    engines = [FastEngine() for _ in range(ENVIRONMENTS)]
    for number, engine in enumerate(engines):
        engine.load(games[number % len(games)])
        state = engine.reset()
        for _ in range(EPISODE):
            state = engine.step(state.admissible_commands[int(rng.integers(len(state.admissible_commands)))])
    return resident(), count_pinned()


def measure(games: Sequence[GameLike], steps: int, passes: int) -> list[Line]:
    """Return all figures.

    Args:
        steps: Number of steps per game in the comparison of the engines.
        passes: Number of passes over the games in the measurement of whole episodes.
    """
    # First, in child processes: forked from a process that has loaded the games, they would find them in memory.
    translated, read = first_loads(games[:SHARED])
    memory, files = in_child(lambda: space(games))
    fast, stock = side_by_side(games[:SHARED], steps)
    steady, rate = steady_rate(games, passes), 1 / stock.step.mean
    start, others = 1e3 * fast.start.mean, 1e3 * stock.start.mean
    restart, stock_restart = 1e3 * fast.restart.mean, 1e3 * stock.restart.mean
    return [
        Line(
            "steps, each state for the first time",
            1 / fast.step.mean,
            "per CPU-s",
            stock=rate,
            target="stock x 80",
            bound=80 * rate,
        ),
        Line("steps, episodes of random play", steady, "per CPU-s", stock=rate, target="2,000", bound=2000),
        Line("start of a known game", start, "CPU ms", stock=others, target="stock / 50", bound=others / 50, most=True),
        Line("start of a known game", start, "CPU ms", stock=others, target="20 ms", bound=20, most=True),
        Line("start of the game just played", restart, "CPU ms", stock_restart, most=True),
        Line("first load, translated", 1e3 * translated, "CPU ms"),
        Line("first load, from disk", 1e3 * read, "CPU ms"),
        Line(f"memory of {ENVIRONMENTS} environments", memory, "MB", target="1,500", bound=1500, most=True),
        Line(f"temporary files of {ENVIRONMENTS} environments", files, "MB", target="500", bound=500, most=True),
    ]


def number(value: float) -> str:
    """Format a value with three significant digits, or as an integer if it has more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(lines: Sequence[Line]) -> str:
    """Return the figures as text."""
    rows = [("", "fast", "", "stock", "times", "target", "")]
    for line in lines:
        stock = "" if line.stock is None else number(line.stock)
        times = "" if line.times is None else number(line.times)
        target = f"{'at most' if line.most else 'at least'} {line.target}" if line.target else ""
        verdict = {None: "", True: "met", False: "MISSED"}[line.met]
        rows.append((line.name, number(line.value), line.unit, stock, times, target, verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {1, 3, 4}
    return "".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        + "\n"
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table. Return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed.alfworld", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure fewer games and steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures, as JSON (default: none)")
    options = parser.parse_args(arguments)
    games = all_games(SHARED if options.quick else 4 * SHARED)
    lines = measure(games, 5, 3) if options.quick else measure(games, 30, 10)
    print(table(lines), end="")
    if options.json is not None:
        write_atomically(
            options.json, json.dumps([asdict(line) | {"times": line.times} for line in lines], indent=1) + "\n"
        )
    return int(any(line.met is False for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
