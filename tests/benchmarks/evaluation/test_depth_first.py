"""Depth first: as many meta-episodes in flight as an endpoint has slots, and the last ones together."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.evaluate import depth_first
from mage_envs.benchmarks.evaluation.suites.environments import make_envs
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.text.generation import Completion, Prompt
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect


class Slots:
    """A server in virtual time: so many calls at once, the others in a queue; latencies are lognormal."""

    def __init__(self, slots: int) -> None:
        self.now, self.answered = 0.0, 0
        self.spent: dict[int, float] = {}
        self._slots, self._rng = slots, np.random.default_rng(0)
        self._queue: deque[Prompt] = deque()
        self._running: list[tuple[float, int, Completion]] = []

    def submit(self, prompt: Prompt) -> None:
        self._queue.append(prompt)
        self._begin()

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        if timeout == 0.0:  # time spent waiting for this thread does not count on this clock
            return []
        self.now, slot, completion = heapq.heappop(self._running)
        self.answered += 1
        self._begin()
        return [(slot, completion)]

    def _begin(self) -> None:
        while self._queue and len(self._running) < self._slots:
            prompt = self._queue.popleft()
            latency = float(self._rng.lognormal(0, 0.3))
            # `member` names the meta-episode.
            self.spent[prompt.seed[1]] = self.spent.get(prompt.seed[1], 0.0) + latency
            text = "<remark>x</remark>" if prompt.phase == "reflect" else "<action>bet</action>"
            heapq.heappush(self._running, (self.now + latency, prompt.slot, Completion(text)))

    def cancel(self) -> None:
        self._queue.clear()
        self._running.clear()

    @property
    def critical_path(self) -> float:
        """The least time of all calls: one meta-episode after the other in each slot, or the longest one."""
        return max(*self.spent.values(), sum(self.spent.values()) / self._slots)


def play(count: int, slots: int, batch: int = 256) -> tuple[Slots, list[int]]:
    """The server after so many meta-episodes of Kuhn, and the number of answers at the end of each one."""
    setting = setting_for("kuhn-paper")
    specs = [RolloutSpec(task, member=number) for number, task in enumerate(setting.tasks[:count])]
    at_once, in_flight = depth_first(count, batch, slots)
    server = Slots(slots)
    ends: list[int] = []
    envs = make_envs(setting.panel.env_id, setting.options, in_flight)
    collect(envs, server, specs, at_once=at_once, on_finished=lambda index, trajectory: ends.append(server.answered))
    assert len(ends) == count
    return server, ends


@pytest.mark.parametrize("count", [36, 100, 132])
def test_half_of_the_calls_finish_two_fifths_at_8_slots(count: int) -> None:
    server, ends = play(count, 8)
    assert sum(end <= server.answered / 2 for end in ends) >= 0.4 * count
    assert server.now <= 1.1 * server.critical_path


@pytest.mark.parametrize("count", [64, 66, 100, 132, 300])
def test_64_slots_take_at_most_1_3_times_the_critical_path(count: int) -> None:
    server, _ = play(count, 64)
    assert server.critical_path <= server.now <= 1.3 * server.critical_path


@pytest.mark.parametrize(
    ("count", "batch", "slots", "expected"),
    [
        (132, 256, 8, (8, 16)),
        (18, 256, 8, (8, 13)),
        (12, 256, 8, (8, 12)),
        (8, 256, 8, (8, 8)),
        (3, 256, 8, (3, 3)),
        (132, 10, 8, (8, 10)),
        (132, 4, 8, (4, 4)),
        (512, 256, None, (256, 256)),
        (16, 256, None, (16, 16)),
    ],
)
def test_the_number_in_flight(count: int, batch: int, slots: int | None, expected: tuple[int, int]) -> None:
    assert depth_first(count, batch, slots) == expected
