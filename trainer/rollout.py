"""The only rollout loop: drives many meta-episodes against one generator, for training and for evaluation alike."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from mage_envs.core import Task
from mage_envs.hand import OpponentFailure
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import Reply
from trainer.generation import StreamingGenerator
from trainer.trajectory import EpisodeResult, Step, Trajectory
from trainer.workers import Workers


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


class _Run:
    """One meta-episode under way in one slot: what `reset` and `step` of its environment gave, as steps.

    An environment whose `info` says nothing of a meta-episode is played as one episode of one hand.
    """

    def __init__(self, slot: int, env: gym.Env[Any, Any], spec: RolloutSpec, retry: int, reply_limit: int) -> None:
        self.slot, self.env, self.spec, self.retry = slot, env, spec, retry
        self.steps: list[Step] = []
        self.failure: str | None = None
        self.over = False
        self.misused: Exception | None = None
        """The error of a task that cannot be played at all (an unknown opponent, a bad option)."""
        self.prompt: Prompt
        """The next prompt."""
        self._limit = reply_limit
        self._chat: list[Message] = []
        self._last: Completion | None = None
        self._info: Mapping[str, Any] = {}
        self._results: list[EpisodeResult] = []
        self._turns = (-1, 0)
        """The running episode, and the play steps in it so far."""
        self._earned = 0.0

    def begin(self) -> None:
        """Starts the meta-episode; the opponents may already move."""
        task = self.spec.task
        chosen = {"opponent": task.opponent, "seat": task.seat, "task": task.task_id}
        options = {key: value for key, value in chosen.items() if value is not None}
        self._ask(*self.env.reset(seed=task.seed, options=options or None))

    def _ask(self, observation: str, info: Mapping[str, Any]) -> None:
        """Makes the next prompt. What is new in the chat is the observation, as wrappers may have changed it."""
        self._info = info
        fresh = info.get("fresh_chat", True)
        newest = Message("user", observation)
        if fresh:
            self._chat = [Message(**message) for message in info.get("messages", ())[:-1]]
        self._chat.append(newest)
        self.prompt = Prompt(
            messages=tuple(self._chat),
            slot=self.slot,
            seed=(self.spec.task.seed, self.spec.member, len(self.steps), self.retry),
            legal_actions=tuple(info.get("legal_actions", ())),
            phase=info.get("phase", "play"),
            previous=None if fresh else self._last,
            info=info,
        )

    def take(self, completion: Completion) -> None:
        """Plays one reply and makes the next prompt; to one that is too long the environment gives a shorter one."""
        if completion.error is not None:
            self.fail("generator", completion.error)
            return
        asked, text = self._info, completion.text
        reply = text
        if self._limit or completion.truncated or completion.overflow:
            reply = Reply(text, len(completion.ids), self._limit, completion.truncated, completion.overflow)
        observation, reward, terminated, truncated, info = self.env.step(reply)
        if info.get("shortened"):
            self._ask(observation, info)
            return
        self._earned += float(reward)
        over = bool(terminated or truncated)
        self.steps.append(self._step(asked, info, completion, float(reward), over))
        if info.get("episode_end", over):
            self._results.append(self._result(info, bool(truncated)))
        self._last = completion
        self._chat.append(Message("assistant", text))
        if over:
            self.over, self._info = True, info
        else:
            self._ask(observation, info)

    def _step(
        self, asked: Mapping[str, Any], info: Mapping[str, Any], completion: Completion, reward: float, over: bool
    ) -> Step:
        phase, episode, turn = asked.get("phase", "play"), asked.get("episode_index", 0), 0
        if phase == "play":
            before, turns = self._turns
            turn = turns if episode == before else 0
            self._turns = (episode, turn + 1)
        return Step(
            episode=episode,
            phase=phase,
            turn=turn,
            hand=asked.get("hand", 0),
            anchor=asked.get("anchor", self.prompt.messages[-1].content),
            information_state=asked.get("information_state", ""),
            seat=asked.get("seat", 0),
            action=info.get("action"),
            reward=info.get("hand_reward", reward),
            penalty=info.get("penalty", 0.0),
            invalid_reason=info.get("invalid_reason"),
            text=completion.text,
            prompt_ids=completion.prompt_ids,
            completion_ids=completion.ids,
            logprobs=completion.logprobs,
            truncated=completion.truncated,
            legal_ids=completion.legal_ids,
            hand_end=info.get("hand_end", over),
        )

    def _result(self, info: Mapping[str, Any], timeout: bool) -> EpisodeResult:
        """The episode that has ended."""
        seats = tuple(info.get("seats", (0,)))
        value = info.get("episode_value", self._earned)
        return EpisodeResult(
            reward=info.get("episode_return", self._earned),
            value=value,
            hands=len(seats),
            success=bool(info.get("success", value > 0)),
            timeout=bool(info.get("timeout", timeout)),
            seats=seats,
            metrics=info.get("episode_metrics", info.get("metrics", {})),
        )

    def fail(self, kind: str, reason: str) -> None:
        self.failure = f"{kind}: {reason}"
        self.over = True

    def trajectory(self) -> Trajectory:
        spec, info = self.spec, self._info
        return Trajectory(
            task=spec.task,
            opponent=info.get("opponent") or spec.task.opponent or "",
            group=spec.group,
            member=spec.member,
            steps=tuple(self.steps),
            episodes=tuple(self._results),
            num_episodes=info.get("num_episodes", 1),
            failure=self.failure,
            retries=self.retry,
            category=info.get("category"),
        )


class _Rollout:
    """The state of one `collect` call."""

    def __init__(
        self, envs: list[gym.Env[Any, Any]], specs: Sequence[RolloutSpec], retries: int, reply_limit: int
    ) -> None:
        self.envs = envs
        self.waiting = deque((index, spec, 0) for index, spec in enumerate(specs))
        self.done: list[Trajectory | None] = [None] * len(specs)
        self.live: dict[int, tuple[int, _Run]] = {}
        self._retries, self._limit = retries, reply_limit

    def start(self, slot: int) -> list[Move]:
        """The first move of the next spec, in a slot; nothing where none is left."""
        if not self.waiting:
            return []
        index, spec, retry = self.waiting.popleft()
        run = _Run(slot, self.envs[slot], spec, retry, self._limit)
        self.live[slot] = (index, run)
        return [(run, None)]

    def finish(self, run: _Run) -> None:
        """Files a finished run; a failed one goes back to the queue once."""
        index, _ = self.live.pop(run.slot)
        if run.failure is not None and run.retry < self._retries:
            self.waiting.append((index, run.spec, run.retry + 1))
        else:
            self.done[index] = run.trajectory()

    def give_up(self, run: _Run, env: gym.Env[Any, Any], reason: str) -> None:
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

    def _replacement(self) -> gym.Env[Any, Any]:
        if self.make_env is None:
            raise RuntimeError(f"An environment gave no answer in {self.timeout} s; pass make_env to replace it.")
        return self.make_env()


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
    rollout = _Rollout(list(envs), specs, retries, reply_limit)
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
