"""How much of a rollout a model generates for, beside slow opponents: `collect` on a clock that is only counted.

`python -m benchmarks.speed.overlap`. The environments, `collect` and its waiting are the real ones; a move takes 2 s of
the counted clock because of its opponent, a token 25 ms, whatever else is under way (continuous batching). Compared:
an engine that works in the background and one that works while it is waited for, opponents that think one after the
other and in worker processes. The share is the time in which the model generated.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from mage_commands import OneLineParser
from mage_envs.processes import Watch, attempt
from mage_envs.randomness import Stream, fold
from mage_envs.text.generation import Completion, Prompt
from trainer.rollout import RolloutClock, collect
from trainer.specs import rollout_specs
from trainer.stages import Environments, Move, Outcome

LEAST_SHARE = 0.9
MOVE, TOKEN = 2.0, 0.025
"""Seconds."""
REPLY = (5.3, 1.0)
"""Reply lengths in tokens, log-normal: mean and deviation of the logarithm; median 200, one in twenty above 1,000."""


class CountedTime:
    """A clock that stands still until somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Thinking:
    """A streaming model; `background` tells whether it works while it is not waited for."""

    def __init__(self, time: CountedTime, background: bool) -> None:
        self._time, self._background = time, background
        self._worked = 0.0
        """Seconds that it could work up to now."""
        self._seen = 0.0
        self._running: list[tuple[float, int, Completion]] = []
        self.generating = self.replying = 0.0
        """Seconds in which it worked at something, and these times the replies under way."""

    def submit(self, prompt: Prompt) -> None:
        self._work(self._background)
        mean, deviation = REPLY
        tokens = Stream(fold(0, *prompt.seed)).generator().lognormal(mean, deviation)
        text = "<remark>x</remark>" if prompt.phase == "reflect" else f"<action>{prompt.legal_actions[0]}</action>"
        heapq.heappush(self._running, (self._worked + tokens * TOKEN, prompt.slot, Completion(text)))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        self._work(self._background)
        first = self._running[0][0] - self._worked if self._running else 0.0
        self._time.now += max(min(first, inf if timeout is None else timeout), 0.0)
        self._work(True)
        ready = []
        while self._running and self._running[0][0] <= self._worked + 1e-9:
            ready.append(heapq.heappop(self._running)[1:])
        return ready

    def cancel(self) -> None:
        self._running.clear()

    def _work(self, works: bool) -> None:
        """Up to now."""
        passed = self._time.now - self._seen
        self._seen = self._time.now
        if works:
            self._worked += passed
            self.generating += passed * bool(self._running)
            self.replying += passed * len(self._running)


class SlowEnvironments:
    """Real environments whose moves take `MOVE` seconds each, `workers` of them at once; 0: one after the other."""

    def __init__(self, time: CountedTime, slots: int, workers: int) -> None:
        self.pause = 0.01 if workers else 0.0
        self._time, self._slots, self._workers = time, slots, workers
        self._environments = Environments(lambda: gym.make("mage/KuhnPoker-Meta-v0", disable_env_checker=True))
        self._waiting: deque[Move] = deque()
        self._playing: list[tuple[float, int, Any]] = []

    def __len__(self) -> int:
        return self._slots

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._playing)

    def begin(self, moves: Sequence[Move], watch: Watch, deadline: float) -> None:
        self._waiting += moves
        self._start()

    def ended(self, timeout: float | None) -> list[Outcome]:
        until = inf if timeout is None else self._time.now + timeout
        found: list[Outcome] = []
        if not self._workers:  # as `Here`: one move, however long it takes
            for _ in range(len(self._waiting) if timeout is None else min(1, len(self._waiting))):
                self._time.now += MOVE
                found.append(self._play(self._waiting.popleft()))
            return found
        while self._playing and (not found or timeout is None or self._playing[0][0] <= self._time.now):
            if self._playing[0][0] > until:
                self._time.now = until
                break
            ended, slot, outcome = heapq.heappop(self._playing)
            self._time.now = max(self._time.now, ended)
            found.append((slot, outcome))
            self._start()
        return found

    def drop(self) -> None:
        self._waiting.clear()
        self._playing.clear()

    def _start(self) -> None:
        while self._waiting and len(self._playing) < self._workers:
            slot, outcome = self._play(self._waiting.popleft())
            heapq.heappush(self._playing, (self._time.now + MOVE, slot, outcome))

    def _play(self, move: Move) -> Outcome:
        return move.slot, attempt(self._environments, move.slot, move.call)


@dataclass(frozen=True)
class OverlapSetting:
    """One line of the table."""

    name: str
    background: bool
    workers: int


SETTINGS = (
    OverlapSetting("engine in the foreground, opponents in this process", background=False, workers=0),
    OverlapSetting("engine in the background, opponents in this process", background=True, workers=0),
    OverlapSetting("engine in the background, 16 workers", background=True, workers=16),
    OverlapSetting("engine in the background, 64 workers", background=True, workers=64),
)


@dataclass(frozen=True)
class Shares:
    """Where a rollout's time went."""

    seconds: float
    generating: float
    """Share of the time in which the model works."""
    under_way: float
    """Mean number of replies that it works at."""


def play(setting: OverlapSetting, slots: int = 64) -> Shares:
    """Plays one meta-episode of Kuhn Poker in each slot."""
    time = CountedTime()
    model, stage = Thinking(time, setting.background), SlowEnvironments(time, slots, setting.workers)
    clock = RolloutClock(now=time)
    specs = rollout_specs("mage/KuhnPoker-Meta-v0", 0, 0, slots // 8, 8, {"kuhn/nash": 1.0})
    played = collect(stage, model, specs, clock=clock)
    failed = [trajectory.failure for trajectory in played if trajectory.failure is not None]
    if failed:
        raise RuntimeError(f"{len(failed)} meta-episodes failed, the first: {failed[0]}")
    return Shares(clock.total, model.generating / clock.total, model.replying / clock.total)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where the last line's share is too small."""
    parser = OneLineParser(prog="python -m benchmarks.speed.overlap", description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", type=int, default=64, metavar="N", help="meta-episodes at once, a multiple of 8")
    slots = parser.parse_args(arguments).slots
    print(f"{'':<52} {'seconds':>8} {'generating':>11} {'replies under way':>18}")
    shares = Shares(0.0, 0.0, 0.0)
    for setting in SETTINGS:
        shares = play(setting, slots)
        print(f"{setting.name:<52} {shares.seconds:>8,.0f} {shares.generating:>11.1%} {shares.under_way:>18.1f}")
    return int(shares.generating < LEAST_SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
