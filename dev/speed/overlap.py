"""Share of a rollout in which the model generates, beside slow opponents: `collect` on a simulated clock.

`python -m dev.speed.overlap`. The environments, `collect` and its waiting are the real ones. On the simulated
clock, a move takes 2 s because of its opponent. A token takes 25 ms, independent of other replies under way (continuous
batching). The comparison has two engines: one works in the background, the other works only while the rollout waits for
it. Opponents think one after the other, or in worker processes. The share is the time in which the model generates.
"""

from __future__ import annotations

import argparse
import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.processes.call_outcomes import attempt
from mage_envs.processes.watchdog import Watchdog
from mage_envs.random.streams import Stream, fold
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.method.tasks import rollout_specs
from mage_envs.wrappers.rollout.env_pool import EnvCall, Environments, EnvPool, Outcome
from mage_envs.wrappers.rollout.loop import RolloutClock, collect

LEAST_SHARE = 0.9
MOVE, TOKEN = 2.0, 0.025
"""Duration of a move and of a token in seconds."""
REPLY = (5.3, 1.0)
"""Mean and deviation of the logarithm of a reply's length in tokens. The median is 200, and 5% are above 1,000."""


class CountedTime:
    """Simulated clock in seconds, which advances only if the model or an environment is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Thinking:
    """Streaming model on the simulated clock."""

    def __init__(self, time: CountedTime, background: bool) -> None:
        """Start without any reply under way.

        Args:
            background: True if the model also works while it is not waited for.
        """
        self._time, self._background = time, background
        self._worked = 0.0
        """Seconds that the model could work so far."""
        self._seen = 0.0
        self._running: list[tuple[float, int, Completion]] = []
        self.generating = self.replying = 0.0
        """Seconds of work on at least one reply, and the same seconds multiplied by the number of replies under way."""

    def submit(self, prompt: Prompt) -> None:
        self._work(self._background)
        mean, deviation = REPLY
        # The length depends on the prompt's seed only, so every setting has the same replies.
        tokens = Stream(fold(0, *prompt.seed)).generator().lognormal(mean, deviation)
        text = "<remark>x</remark>" if prompt.phase == "reflect" else f"<action>{prompt.legal_actions[0]}</action>"
        heapq.heappush(self._running, (self._worked + tokens * TOKEN, prompt.slot, Completion(text)))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        self._work(self._background)
        next_end = self._running[0][0] - self._worked if self._running else 0.0
        self._time.now += max(min(next_end, inf if timeout is None else timeout), 0.0)
        self._work(True)
        ready = []
        # The tolerance covers rounding errors in the sums of times.
        while self._running and self._running[0][0] <= self._worked + 1e-9:
            ready.append(heapq.heappop(self._running)[1:])
        return ready

    def cancel(self) -> None:
        self._running.clear()

    def _work(self, works: bool) -> None:
        """Account for the time since the last call, in which the model worked if `works`."""
        passed = self._time.now - self._seen
        self._seen = self._time.now
        if works:
            self._worked += passed
            self.generating += passed * bool(self._running)
            self.replying += passed * len(self._running)


class SlowEnvironments(EnvPool):
    """Stage of real environments whose moves take `MOVE` seconds each on the simulated clock."""

    def __init__(self, time: CountedTime, slots: int, workers: int) -> None:
        """Start without any move.

        Args:
            workers: Number of moves at once, or 0 to play in the calling process, one move after the other.
        """
        self.pause = 0.01 if workers else 0.0
        self._time, self._slots, self._workers = time, slots, workers
        self._environments = Environments(lambda: gym.make("mage/KuhnPoker-Meta-v0", disable_env_checker=True))
        self._waiting: deque[EnvCall] = deque()
        self._playing: list[tuple[float, int, Any]] = []

    def __len__(self) -> int:
        return self._slots

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._playing)

    def submit(self, moves: Sequence[EnvCall], watch: Watchdog, deadline: float) -> None:
        self._waiting += moves
        self._start()

    def poll(self, timeout: float | None) -> list[Outcome]:
        until = inf if timeout is None else self._time.now + timeout
        outcomes: list[Outcome] = []
        # Like `InProcessEnvs`: all moves, or one if a timeout is set, however long it takes.
        if not self._workers:
            for _ in range(len(self._waiting) if timeout is None else min(1, len(self._waiting))):
                self._time.now += MOVE
                outcomes.append(self._play(self._waiting.popleft()))
            return outcomes
        # As worker processes: wait for the first move that ends, then add those that have ended by then.
        while self._playing and (not outcomes or timeout is None or self._playing[0][0] <= self._time.now):
            if self._playing[0][0] > until:
                self._time.now = until
                break
            end_time, slot, outcome = heapq.heappop(self._playing)
            self._time.now = max(self._time.now, end_time)
            outcomes.append((slot, outcome))
            self._start()
        return outcomes

    def cancel(self) -> None:
        self._waiting.clear()
        self._playing.clear()

    def _start(self) -> None:
        while self._waiting and len(self._playing) < self._workers:
            # The move is played at once, and its outcome is delivered `MOVE` simulated seconds later.
            slot, outcome = self._play(self._waiting.popleft())
            heapq.heappush(self._playing, (self._time.now + MOVE, slot, outcome))

    def _play(self, move: EnvCall) -> Outcome:
        return move.slot, attempt(self._environments, move.slot, move.call)


@dataclass(frozen=True)
class OverlapSetting:
    """Line of the table: an engine and a number of workers."""

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
    """Use of a rollout's time."""

    seconds: float
    generating: float
    """Share of the time in which the model works."""
    under_way: float
    """Mean number of replies under way."""


def play(setting: OverlapSetting, slots: int = 64) -> Shares:
    """Play one meta-episode of Kuhn Poker in each slot."""
    time = CountedTime()
    model, pool = Thinking(time, setting.background), SlowEnvironments(time, slots, setting.workers)
    clock = RolloutClock(now=time)
    specs = rollout_specs("mage/KuhnPoker-Meta-v0", 0, 0, slots // 8, 8, {"kuhn/nash": 1.0})
    trajectories = collect(pool, model, specs, clock=clock)
    failed = [trajectory.failure for trajectory in trajectories if trajectory.failure is not None]
    if failed:
        raise RuntimeError(f"{len(failed)} meta-episodes failed, the first: {failed[0]}")
    return Shares(clock.total, model.generating / clock.total, model.replying / clock.total)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Return 1 if the last line's share is too small."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed.overlap", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--slots", type=int, default=64, metavar="N", help="meta-episodes at once, a multiple of 8 (default: 64)"
    )
    slots = parser.parse_args(arguments).slots
    print(f"{'':<52} {'seconds':>8} {'generating':>11} {'replies under way':>18}")
    shares = Shares(0.0, 0.0, 0.0)
    for setting in SETTINGS:
        shares = play(setting, slots)
        print(f"{setting.name:<52} {shares.seconds:>8,.0f} {shares.generating:>11.1%} {shares.under_way:>18.1f}")
    return int(shares.generating < LEAST_SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
