"""Shared parts of the tests of rollouts: environments, specs, answers, and faulty backends and opponents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from mage_envs.core import Task
from mage_envs.text.generation import Completion, Prompt
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.make import make_meta_env
from mage_envs.wrappers.rollout.loop import RolloutSpec
from mage_envs.wrappers.rollout.trajectory import Trajectory

ID = "mage/KuhnPoker-Meta-v0"


def make(opponent: Any = None, **options: Any) -> MetaEpisode:
    return make_meta_env("KuhnPoker", opponent=opponent, **{"num_episodes": 2, **options})


def answer(prompt: Prompt) -> str:
    """A function of the sampling key and the prompt alone, illegal now and then."""
    if prompt.phase == "reflect":
        return f"<remark>plan {prompt.seed}</remark>"
    number = sum((index + 3) * part for index, part in enumerate(prompt.seed))
    action = "nonsense" if number % 7 == 0 else prompt.legal_actions[number % len(prompt.legal_actions)]
    return f"<action>{action}</action>"


def specs(count: int, opponent: str | None = None, seat: int | None = None) -> list[RolloutSpec]:
    return [RolloutSpec(Task(ID, opponent, seat, 10 + i // 2), group=i // 2, member=i % 2) for i in range(count)]


def frozen(trajectories: Sequence[Trajectory]) -> list[bytes]:
    return [repr(trajectory).encode() for trajectory in trajectories]


class Asked:
    """Answers with `reply`, and keeps every batch that it was asked."""

    def __init__(self, reply: Callable[[Prompt], Completion] = lambda prompt: Completion(answer(prompt))) -> None:
        self.reply = reply
        self.batches: list[list[Prompt]] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        self.batches.append(list(prompts))
        return [self.reply(prompt) for prompt in prompts]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for batch in self.batches for prompt in batch]


class OneAtATime:
    """A streaming backend that answers the newest prompt first, one per poll that waits for it."""

    def __init__(self) -> None:
        self.waiting: list[Prompt] = []
        self.most = 0

    def submit(self, prompt: Prompt) -> None:
        assert all(prompt.slot != waiting_prompt.slot for waiting_prompt in self.waiting)
        self.waiting.append(prompt)
        self.most = max(self.most, len(self.waiting))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        if not self.waiting or timeout == 0.0:
            return []
        prompt = self.waiting.pop()
        return [(prompt.slot, Completion(answer(prompt)))]

    def cancel(self) -> None:
        self.waiting.clear()


class Flaky:
    """An opponent that raises at its first `failures` moves, then checks and folds."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the server is away")
        return str(turn.legal_actions[0])


class Hanging:
    """An opponent whose moves sleep, or loop."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        if self.kind == "sleep":
            time.sleep(60)
        while True:
            pass


def broken(failures: int) -> MetaEpisode:
    """An environment whose first `failures` plays raise."""
    env, failures_left = make(), [failures]
    step = env.env.step

    def maybe(action: str) -> Any:
        if failures_left[0] > 0:
            failures_left[0] -= 1
            raise ZeroDivisionError("the simulator broke")
        return step(action)

    env.env.step = maybe  # type: ignore[method-assign]
    return env
