"""ALFWorld's fast engine beside the stock one: steps, starts, memory (`python -m benchmarks.speed.alfworld`).

Times are CPU times of this process. The two engines take turns on the same games and commands, and what they say is
compared, so that a loaded machine slows both and a wrong answer is no fast one. Without ALFWORLD_DATA the games are
generated ones of the official size.
"""

from __future__ import annotations

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

from mage_commands import OneLineParser
from mage_envs.durable import write_atomically
from mage_envs.games.alfworld.engine import Engine, EngineState, FastEngine
from mage_envs.games.alfworld.gamefile import GameLike
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.games.alfworld.stock import StockEngine

ENVIRONMENTS = 256
EPISODE = 30
"""Steps of an episode of random play."""
SHARED = 6
"""Games that both engines play; one of each task type."""
CACHE = "MAGE_ENVS_CACHE"
MILLION = 1_000_000


@dataclass(frozen=True)
class Line:
    """One measured figure."""

    name: str
    value: float
    unit: str
    stock: float | None = None
    """The stock engine's figure."""
    target: str = ""
    bound: float | None = None
    """The target as a number."""
    most: bool = False
    """Whether less is better."""

    @property
    def times(self) -> float | None:
        """How many times better than the stock engine."""
        if self.stock is None:
            return None
        return self.stock / self.value if self.most else self.value / self.stock

    @property
    def met(self) -> bool | None:
        if self.bound is None:
            return None
        return self.value <= self.bound if self.most else self.value >= self.bound


def all_games(count: int) -> list[GameLike]:
    """Official games where ALFWORLD_DATA says where they are, else generated ones; of all task types in turn."""
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
        started = time.process_time()
        yield
        self.seconds.append(time.process_time() - started)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)


@dataclass
class Clocks:
    """What is timed of one engine."""

    start: Clock = field(default_factory=Clock)
    """Load and reset of a game that was played before."""
    restart: Clock = field(default_factory=Clock)
    step: Clock = field(default_factory=Clock)


def begin(engine: Engine, game: GameLike, clocks: Clocks) -> EngineState:
    """Starts a game, and once more."""
    with clocks.start.running():
        engine.load(game)
        engine.reset()
    with clocks.restart.running():
        return engine.reset()


def side_by_side(games: Sequence[GameLike], steps: int) -> tuple[Clocks, Clocks]:
    """(fast, stock): `steps` random commands in each game, the same for both. Raises RuntimeError where they differ."""
    rng = np.random.default_rng(0)
    engines: tuple[tuple[Engine, Clocks], ...] = ((FastEngine(), Clocks()), (StockEngine(), Clocks()))
    for game in games:  # a known game is one that this process has played
        engines[0][0].load(game)
        engines[0][0].reset()
    engines[1][0].load(games[0])  # lazy imports are not counted
    for game in games:
        first, second = (begin(engine, game, clocks) for engine, clocks in engines)
        agree(first, second)
        for _ in range(steps):
            command = first.admissible_commands[int(rng.integers(len(first.admissible_commands)))]
            with engines[0][1].step.running():
                first = engines[0][0].step(command)
            with engines[1][1].step.running():
                second = engines[1][0].step(command)
            agree(first, second)
    for engine, _ in engines:
        engine.close()
    return engines[0][1], engines[1][1]


def agree(fast: EngineState, stock: EngineState) -> None:
    """Raises RuntimeError where the engines say different things."""
    if fast != stock:
        raise RuntimeError(f"The engines differ: {fast} and {stock}.")


def steady_rate(games: Sequence[GameLike], passes: int) -> float:
    """The fast engine's steps per CPU-second over whole episodes of random play, starts not counted."""
    rng = np.random.default_rng(1)
    engine, clock = FastEngine(), Clock()
    for _ in range(passes):
        for game in games:
            engine.load(game)
            state = engine.reset()
            draws = rng.random(EPISODE)
            with clock.running():
                for draw in draws:
                    commands = state.admissible_commands
                    state = engine.step(commands[int(draw * len(commands))])
    engine.close()
    return EPISODE / clock.mean


def first_loads(games: Sequence[GameLike]) -> tuple[float, float]:
    """Mean CPU seconds of (translating a game, reading a translated one from disk)."""
    kept = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        translated, read = (in_child(lambda: loading(games)) for _ in range(2))
    if kept is None:
        del os.environ[CACHE]
    else:
        os.environ[CACHE] = kept
    return translated, read


def loading(games: Sequence[GameLike]) -> float:
    """Mean CPU seconds of a load in this process."""
    engine, clock = FastEngine(), Clock()
    engine.load(make_game("train", "tiny", TASK_TYPES[0], 0).data())  # lazy imports are not counted
    for game in games:
        with clock.running():
            engine.load(game)
    return clock.mean


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns (a JSON value) in a forked child, so that nothing that it keeps in memory stays."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sending, json.dumps(work()).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def resident() -> float:
    """MB of memory that this process holds (Linux)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 / MILLION if found else math.nan


def pinned() -> float:
    """MB of temporary files that are deleted but still mapped as libraries (Linux)."""
    sizes: dict[str, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libdownward" in line:
            addresses, _, offset, _, inode, _ = line.split(maxsplit=5)
            begins, ends = (int(word, 16) for word in addresses.split("-"))
            sizes[inode] = max(sizes.get(inode, 0), int(offset, 16) + ends - begins)
    return sum(sizes.values()) / MILLION


def space(games: Sequence[GameLike]) -> tuple[float, float]:
    """(MB of memory, MB of temporary files) of a process with 256 environments after an episode in each."""
    rng = np.random.default_rng(2)
    engines = [FastEngine() for _ in range(ENVIRONMENTS)]
    for number, engine in enumerate(engines):
        engine.load(games[number % len(games)])
        state = engine.reset()
        for _ in range(EPISODE):
            state = engine.step(state.admissible_commands[int(rng.integers(len(state.admissible_commands)))])
    return resident(), pinned()


def measure(games: Sequence[GameLike], steps: int, passes: int) -> list[Line]:
    """All figures."""
    translated, read = first_loads(games[:SHARED])
    memory, files = in_child(lambda: space(games))
    fast, stock = side_by_side(games[:SHARED], steps)
    steady, rate = steady_rate(games, passes), 1 / stock.step.mean
    start, others = 1e3 * fast.start.mean, 1e3 * stock.start.mean
    again, others_again = 1e3 * fast.restart.mean, 1e3 * stock.restart.mean
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
        Line("start of the game just played", again, "CPU ms", others_again, most=True),
        Line("first load, translated", 1e3 * translated, "CPU ms"),
        Line("first load, from disk", 1e3 * read, "CPU ms"),
        Line(f"memory of {ENVIRONMENTS} environments", memory, "MB", target="1,500", bound=1500, most=True),
        Line(f"temporary files of {ENVIRONMENTS} environments", files, "MB", target="500", bound=500, most=True),
    ]


def number(value: float) -> str:
    """A value with three significant digits or none after the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(lines: Sequence[Line]) -> str:
    """The figures as text."""
    rows = [("", "fast", "", "stock", "times", "target", "")]
    for line in lines:
        stock = "" if line.stock is None else number(line.stock)
        times = "" if line.times is None else number(line.times)
        target = f"{'at most' if line.most else 'at least'} {line.target}" if line.target else ""
        met = "" if line.met is None else "met" if line.met else "MISSED"
        rows.append((line.name, number(line.value), line.unit, stock, times, target, met))
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
    """Measures and prints the table; 1 where a target is missed."""
    parser = OneLineParser(prog="python -m benchmarks.speed.alfworld", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer games and steps, for a look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    chosen = parser.parse_args(arguments)
    games = all_games(SHARED if chosen.quick else 4 * SHARED)
    lines = measure(games, 5, 3) if chosen.quick else measure(games, 30, 10)
    print(table(lines), end="")
    if chosen.json is not None:
        write_atomically(
            chosen.json, json.dumps([asdict(line) | {"times": line.times} for line in lines], indent=1) + "\n"
        )
    return int(any(line.met is False for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
