"""The only rollout loop: drives many meta-episodes against one generator, for training and for evaluation alike."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from mage_envs.core import Task
from mage_envs.env import OpponentFailure
from mage_envs.randomness import SEEDS_KEPT
from mage_envs.text.generation import Completion, Generator, Prompt
from mage_envs.text.parser import Reply
from trainer.generation import StreamingGenerator
from trainer.trajectory import Step, Trajectory
from trainer.workers import Workers
from wrappers import MetaEpisode
from wrappers.walk import TableWalk, fastest

TOGETHER = SEEDS_KEPT
"""Meta-episodes whose random streams are made together."""


_new = tuple.__new__
"""Makes a named tuple at half the time of calling its class."""
Driver = MetaEpisode | TableWalk
"""What a meta-episode is driven by."""


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
        self.submit = self._waiting.append

    def poll(self) -> list[tuple[int, Completion]]:
        prompts = self._waiting[:]
        self._waiting.clear()
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

    __slots__ = (
        "_asked",
        "_episode",
        "_last",
        "_limit",
        "_member",
        "_seed",
        "_turn",
        "began",
        "env",
        "failure",
        "misused",
        "over",
        "prompt",
        "retry",
        "slot",
        "spec",
        "steps",
    )

    def __init__(self, slot: int, env: Driver, spec: RolloutSpec, retry: int, reply_limit: int) -> None:
        self.slot, self.env, self.spec, self.retry = slot, env, spec, retry
        self._limit = reply_limit
        self._seed, self._member = spec.task.seed, spec.member
        self.steps: list[Step] = []
        self.failure: str | None = None
        self.over = False
        self._turn = 0
        self._episode = -1
        self._last: Completion | None = None
        self.began = False
        self.prompt: Prompt
        """The next prompt, made while what it is made of is at hand."""
        self.misused: Exception | None = None
        """The error of a task that cannot be played at all (an unknown opponent, a bad option)."""

    def begin(self) -> None:
        """Starts the meta-episode; the opponents may already move."""
        task, options = self.spec.task, dict[str, Any]()
        if task.opponent is not None:
            options["opponent"] = task.opponent
        if task.seat is not None:
            options["seat"] = task.seat
        if task.task_id is not None:
            options["task"] = task.task_id
        self.env.begin(task.seed, options)
        self.began = True

    def ask(self) -> None:
        """Makes the next prompt."""
        env = self.env
        self._asked = phase, _, _, _, legal_actions = env.asked
        key = (self._seed, self._member, len(self.steps), self.retry)
        previous = None if env.fresh_chat else self._last
        self.prompt = _new(Prompt, (env.messages, self.slot, key, legal_actions, phase, previous))

    def take(self, completion: Completion) -> None:
        """Plays one reply and makes the next prompt; one that is too long is shortened and asked again."""
        if completion.error is not None:
            self.fail("generator", completion.error)
            return
        if completion.overflow and self.env.shorten():
            self.ask()
            return
        env, text = self.env, completion.text
        phase, episode, hand, anchor, _ = self._asked
        played = 0
        if phase == "play":
            if episode != self._episode:
                self._episode, self._turn = episode, 0
            played = self._turn
            self._turn += 1
        reply = text
        if self._limit or completion.truncated or completion.overflow:
            reply = Reply(text, len(completion.ids), self._limit, completion.truncated, completion.overflow)
        reason, penalty, reward, hand_end, _ = env.answer(reply)
        self._last = completion
        step = (
            episode,
            phase,
            played,
            hand,
            anchor,
            reward,
            penalty,
            reason,
            text,
            completion.prompt_ids,
            completion.ids,
            completion.logprobs,
            completion.truncated,
            completion.legal_ids,
            hand_end,
        )
        self.steps.append(_new(Step, step))
        if env.over:
            self.over = True
        else:
            self.ask()

    def fail(self, kind: str, reason: str) -> None:
        self.failure = f"{kind}: {reason}"
        self.over = True

    def trajectory(self) -> Trajectory:
        return Trajectory(
            self.spec.task,
            self.env.opponent_name,
            self.spec.group,
            self.spec.member,
            tuple(self.steps),
            self.env.results(),
            self.env.num_episodes,
            self.failure,
            self.retry,
            self.env.game_env.game.category(),
        )


class _Rollout:
    """The state of one `collect` call."""

    def __init__(self, envs: list[Driver], specs: Sequence[RolloutSpec], retries: int, reply_limit: int) -> None:
        self.envs = envs
        self._specs = specs
        self.waiting = deque((index, spec, 0) for index, spec in enumerate(specs))
        self.done: list[Trajectory | None] = [None] * len(specs)
        self.live: dict[int, tuple[int, _Run]] = {}
        self._retries, self._limit = retries, reply_limit

    def start(self, slot: int) -> list[Move]:
        """The first move of the next spec, in a slot; nothing where none is left."""
        if not self.waiting:
            return []
        index, spec, retry = self.waiting.popleft()
        if index % TOGETHER == 0 and not retry:
            self.envs[slot].prepare([spec.task.seed for spec in self._specs[index : index + TOGETHER]])
        run = _Run(slot, self.envs[slot], spec, retry, self._limit)
        self.live[slot] = (index, run)
        return [(run, None)]

    def finish(self, run: _Run) -> None:
        """Files a finished run; a failed one goes back to the queue once."""
        index, _ = self.live.pop(run.slot)
        if run.failure is not None and run.retry < self._retries:
            self.waiting.append((index, run.spec, run.retry + 1))
        elif run.began:
            self.done[index] = run.trajectory()
        else:
            spec = run.spec
            self.done[index] = Trajectory(
                spec.task,
                spec.task.opponent or "",
                spec.group,
                spec.member,
                (),
                (),
                run.env.num_episodes,
                run.failure,
                run.retry,
            )

    def give_up(self, run: _Run, env: Driver, reason: str) -> None:
        """Abandons a hung run with its environment, which its thread may still touch; `env` takes the slot."""
        index, _ = self.live[run.slot]
        lost = _Run(run.slot, env, run.spec, run.retry, self._limit)
        lost.fail("environment", reason)
        self.live[run.slot] = (index, lost)
        self.envs[run.slot] = env
        self.finish(lost)


Move = tuple[_Run, Completion | None]
"""A run and the reply it is to play; None starts it."""


def _play(run: _Run, completion: Completion | None) -> None:
    try:
        if completion is None:
            run.begin()
            run.ask()
        else:
            run.take(completion)
    except OpponentFailure as error:
        run.fail("opponent", str(error))
    except Exception as error:  # a broken environment is data too: typed, counted, masked
        run.fail("environment", f"{type(error).__name__}: {error}")
        if completion is None and isinstance(error, ValueError | TypeError | LookupError):
            run.misused = error


@dataclass(frozen=True)
class _Stage:
    """Where moves are played: in this thread, or by workers that may be given up."""

    workers: Workers | None
    timeout: float | None
    make_env: Callable[[], gym.Env[Any, Any]] | None

    def play(self, rollout: _Rollout, moves: list[Move]) -> list[_Run]:
        """Plays the moves, files what ended and starts what follows; returns the runs that wait for an answer."""
        asking: list[_Run] = []
        while moves:
            hung = self._play_all(moves)
            following: list[Move] = []
            for index, (run, _) in enumerate(moves):
                if hung and index in hung:
                    rollout.give_up(run, self._replacement(), f"no answer within {self.timeout} s")
                elif run.over:
                    if run.misused is not None:
                        raise run.misused
                    rollout.finish(run)
                else:
                    asking.append(run)
                    continue
                following += rollout.start(run.slot)
            moves = following
        return asking

    def _play_all(self, moves: list[Move]) -> set[int]:
        if self.workers is None:
            for move in moves:
                _play(*move)
            return set()
        return set(self.workers.run([partial(_play, *move) for move in moves], self.timeout))

    def _replacement(self) -> Driver:
        if self.make_env is None:
            raise RuntimeError(f"An environment gave no answer in {self.timeout} s; pass make_env to replace it.")
        return fastest(meta_episode(self.make_env()))


def collect(
    envs: Sequence[gym.Env[Any, Any]],
    generator: Generator | StreamingGenerator,
    specs: Sequence[RolloutSpec],
    *,
    retries: int = 1,
    reply_limit: int = 0,
    workers: int = 0,
    step_timeout: float | None = None,
    make_env: Callable[[], gym.Env[Any, Any]] | None = None,
    any_rank_live: Callable[[bool], bool] = bool,
    clock: RolloutClock | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> list[Trajectory]:
    """Plays every spec once and returns the trajectories in the order of `specs`.

    Meta-episodes advance together, one environment each; as one ends, the next spec starts in its environment.
    A reply's fate depends on its own spec alone, never on which others share the batch.

    `reply_limit`: most tokens of a reply (for the length penalty; 0: unknown). `workers`: threads that play slow
    environments and opponents; with `step_timeout` (seconds) one that hangs is given up and replaced by
    `make_env()`. `retries`: how often a broken meta-episode is played again (the retry's index enters the sampling
    key). `any_rank_live(mine)`: tells, when generation is collective, whether any rank still plays; idle ranks then
    generate for an empty batch. `clock` collects times; `on_step(done, all)` reports finished meta-episodes.
    """
    started = time.perf_counter()
    clock = clock if clock is not None else RolloutClock()
    backend = generator if isinstance(generator, StreamingGenerator) else LockStep(generator)
    rollout = _Rollout([fastest(meta_episode(env)) for env in envs], specs, retries, reply_limit)
    if not rollout.envs and specs:
        raise ValueError("collect() needs at least one environment.")
    threads = Workers(workers) if workers else None
    stage = _Stage(threads, step_timeout, make_env)
    moves = [move for slot in range(len(rollout.envs)) for move in rollout.start(slot)]
    while True:
        for run in stage.play(rollout, moves):
            backend.submit(run.prompt)
        if on_step is not None and clock.calls:
            on_step(sum(t is not None for t in rollout.done), len(specs))
        if not any_rank_live(bool(rollout.live)):
            break
        asked = time.perf_counter()
        answers = backend.poll()
        clock.generate += time.perf_counter() - asked
        clock.calls += len(answers)
        moves = [(rollout.live[slot][1], completion) for slot, completion in answers]
    if threads is not None:
        threads.close()
    clock.total += time.perf_counter() - started
    finished = [trajectory for trajectory in rollout.done if trajectory is not None]
    if len(finished) != len(specs):
        raise RuntimeError(f"collect() lost {len(specs) - len(finished)} of {len(specs)} meta-episodes.")
    return finished
