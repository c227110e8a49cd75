"""The only rollout loop: drives many meta-episodes against one generator, for training and for evaluation alike."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from mage_envs.core import Task
from mage_envs.env import OpponentFailure
from mage_envs.generation import Completion, Generator, Prompt
from mage_envs.parser import Reply
from trainer.generation import StreamingGenerator
from trainer.trajectory import EpisodeResult, Step, Trajectory
from wrappers import MetaEpisode


@dataclass(frozen=True)
class RolloutSpec:
    """One meta-episode to play: a task, and where it belongs."""

    task: Task
    group: int = 0
    member: int = 0
    """Index in the group; it enters the sampling key, and nothing of the environment."""


class LockStep:
    """A `Generator` seen as a streaming one: all that was submitted is answered by one batch call."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._waiting: list[Prompt] = []

    def submit(self, prompt: Prompt) -> None:
        self._waiting.append(prompt)

    def poll(self) -> list[tuple[int, Completion]]:
        prompts, self._waiting = self._waiting, []
        return [
            (prompt.slot, completion)
            for prompt, completion in zip(prompts, self._generator.generate(prompts), strict=True)
        ]


@dataclass
class RolloutClock:
    """Where a rollout's time went, in seconds."""

    generate: float = 0.0
    total: float = 0.0
    calls: int = 0
    """Replies asked for."""

    @property
    def environment(self) -> float:
        """Everything outside the generator."""
        return self.total - self.generate


def meta_episode(env: gym.Env[Any, Any]) -> MetaEpisode:
    """The `MetaEpisode` inside Gymnasium's own wrappers."""
    while not isinstance(env, MetaEpisode):
        if not isinstance(env, gym.Wrapper):
            raise TypeError(
                f"{env} holds no MetaEpisode; make it from a -Meta-v0 id or wrap it in wrappers.MetaEpisode."
            )
        env = env.env
    return env


class _Run:
    """One meta-episode under way in one slot."""

    def __init__(self, slot: int, env: MetaEpisode, spec: RolloutSpec, retry: int, reply_limit: int) -> None:
        self.slot, self.env, self.spec, self.retry = slot, env, spec, retry
        self._limit = reply_limit
        self.steps: list[Step] = []
        self.failure: str | None = None
        self.over = False
        self._calls = 0
        self._turn = 0
        self._episode = -1
        self._last: Completion | None = None
        task = spec.task
        options: dict[str, Any] = {}
        if task.opponent is not None:
            options["opponent"] = task.opponent
        if task.seat is not None:
            options["seat"] = task.seat
        env.reset(seed=task.seed, options=options)

    def prompt(self) -> Prompt:
        env = self.env
        return Prompt(
            env.messages, self.slot, (self.spec.task.seed, self.spec.member, self._calls, self.retry),
            env.legal_actions(), env.phase, None if env.fresh_chat else self._last,
        )  # fmt: skip

    def take(self, completion: Completion) -> None:
        """Plays one reply; an over-long prompt is shortened and asked again."""
        if completion.error is not None:
            self.fail("generator", completion.error)
            return
        if completion.overflow and self.env.shorten():
            return
        env = self.env
        phase, episode, hand, anchor = env.phase, env.episode, env.hand, env.anchor()
        if phase == "play" and episode != self._episode:
            self._episode, self._turn = episode, 0
        outcome = env.answer(
            Reply(completion.text, len(completion.ids), self._limit, completion.truncated, completion.overflow)
        )
        self._last = completion
        self._calls += 1
        self.steps.append(
            Step(
                episode, phase, self._turn if phase == "play" else 0, hand, anchor, outcome.hand_reward,
                outcome.penalty, outcome.reason, completion.text, completion.prompt_ids, completion.ids,
                completion.logprobs, completion.truncated, completion.legal_ids, outcome.hand_end,
            )
        )  # fmt: skip
        self._turn += phase == "play"
        self.over = env.over

    def fail(self, kind: str, reason: str) -> None:
        self.failure = f"{kind}: {reason}"
        self.over = True

    def trajectory(self) -> Trajectory:
        episodes = tuple(
            EpisodeResult(
                record.reward, record.value, len(record.hands), record.success, record.timeout,
                tuple(hand.seat for hand in record.hands),
            )
            for record in self.env.records
        )  # fmt: skip
        return Trajectory(
            self.spec.task, self.env.opponent_name, self.spec.group, self.spec.member, tuple(self.steps), episodes,
            self.env.num_episodes, self.failure, self.retry,
        )  # fmt: skip


class _Rollout:
    """The state of one `collect` call."""

    def __init__(self, envs: list[MetaEpisode], specs: Sequence[RolloutSpec], retries: int, reply_limit: int) -> None:
        self.envs = envs
        self.waiting = deque((index, spec, 0) for index, spec in enumerate(specs))
        self.done: list[Trajectory | None] = [None] * len(specs)
        self.live: dict[int, tuple[int, _Run]] = {}
        self._retries, self._limit = retries, reply_limit

    def start(self, slot: int) -> _Run | None:
        """Starts the next spec in a slot; one that cannot even start has failed."""
        while self.waiting:
            index, spec, retry = self.waiting.popleft()
            try:
                run = _Run(slot, self.envs[slot], spec, retry, self._limit)
            except OpponentFailure as error:
                self._fail(index, spec, retry, slot, f"opponent: {error}")
                continue
            self.live[slot] = (index, run)
            return run
        return None

    def _fail(self, index: int, spec: RolloutSpec, retry: int, slot: int, reason: str) -> None:
        if retry < self._retries:
            self.waiting.append((index, spec, retry + 1))
        else:
            planned = self.envs[slot].num_episodes
            self.done[index] = Trajectory(
                spec.task, spec.task.opponent or "", spec.group, spec.member, (), (), planned, reason, retry
            )

    def give_up(self, slot: int, env: MetaEpisode, reason: str) -> None:
        """Abandons a hung run with its environment, which its thread may still touch; `env` takes the slot."""
        index, run = self.live.pop(slot)
        self.envs[slot] = env
        self._fail(index, run.spec, run.retry, slot, reason)

    def finish(self, slot: int) -> None:
        """Files a finished run; a failed one goes back to the queue once."""
        index, run = self.live.pop(slot)
        if run.failure is not None and run.retry < self._retries:
            self.waiting.append((index, run.spec, run.retry + 1))
        else:
            self.done[index] = run.trajectory()


def _advance(run: _Run, completion: Completion) -> None:
    try:
        run.take(completion)
    except OpponentFailure as error:
        run.fail("opponent", str(error))
    except Exception as error:  # a broken environment is data too: typed, counted, masked
        run.fail("environment", f"{type(error).__name__}: {error}")


def _advance_all(
    answers: list[tuple[_Run, Completion]], executor: Executor | None, step_timeout: float | None
) -> list[_Run]:
    """Plays the replies; returns the runs whose environment did not answer in time."""
    if executor is None:
        for run, completion in answers:
            _advance(run, completion)
        return []
    futures: list[tuple[_Run, Future[None]]] = [(run, executor.submit(_advance, run, c)) for run, c in answers]
    hung = []
    for run, future in futures:
        try:
            future.result(timeout=step_timeout)
        except FutureTimeout:
            hung.append(run)
    return hung


def collect(
    envs: Sequence[gym.Env[Any, Any]],
    generator: Generator | StreamingGenerator,
    specs: Sequence[RolloutSpec],
    *,
    retries: int = 1,
    reply_limit: int = 0,
    executor: Executor | None = None,
    step_timeout: float | None = None,
    make_env: Callable[[], gym.Env[Any, Any]] | None = None,
    any_rank_live: Callable[[bool], bool] = bool,
    clock: RolloutClock | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> list[Trajectory]:
    """Plays every spec once and returns the trajectories in the order of `specs`.

    Meta-episodes advance together, one environment each; as one ends, the next spec starts in its environment.
    A reply's fate depends on its own spec alone, never on which others share the batch.

    `reply_limit`: most tokens of a reply (for the length penalty; 0: unknown). `executor`: threads that play slow
    environments and opponents; with `step_timeout` (seconds) one that hangs is given up and replaced by
    `make_env()`. `retries`: how often a broken meta-episode is played again (the retry's index enters the sampling
    key). `any_rank_live(mine)`: tells, when generation is collective, whether any rank still plays; idle ranks then
    generate for an empty batch. `clock` collects times; `on_step(done, all)` reports finished meta-episodes.
    """
    started = time.perf_counter()
    clock = clock if clock is not None else RolloutClock()
    backend = generator if isinstance(generator, StreamingGenerator) else LockStep(generator)
    rollout = _Rollout([meta_episode(env) for env in envs], specs, retries, reply_limit)
    if not rollout.envs and specs:
        raise ValueError("collect() needs at least one environment.")
    for slot in range(len(rollout.envs)):
        run = rollout.start(slot)
        if run is not None:
            backend.submit(run.prompt())
    while any_rank_live(bool(rollout.live)):
        asked = time.perf_counter()
        answers = backend.poll()
        clock.generate += time.perf_counter() - asked
        clock.calls += len(answers)
        played = [(rollout.live[slot][1], completion) for slot, completion in answers]
        hung = _advance_all(played, executor, step_timeout)
        for run, _ in played:
            next_run: _Run | None = run
            if run in hung:
                if make_env is None:
                    raise RuntimeError(
                        f"An environment gave no answer in {step_timeout} s; pass make_env to replace it."
                    )
                rollout.give_up(run.slot, meta_episode(make_env()), f"environment: no answer within {step_timeout} s")
                next_run = rollout.start(run.slot)
            elif run.over:
                rollout.finish(run.slot)
                next_run = rollout.start(run.slot)
            if next_run is not None:
                backend.submit(next_run.prompt())
        if on_step is not None:
            on_step(sum(t is not None for t in rollout.done), len(specs))
    clock.total += time.perf_counter() - started
    finished = [trajectory for trajectory in rollout.done if trajectory is not None]
    if len(finished) != len(specs):
        raise RuntimeError(f"collect() lost {len(specs) - len(finished)} of {len(specs)} meta-episodes.")
    return finished
