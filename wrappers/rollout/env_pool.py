"""Stages: environments played in this process, or in worker processes that may hang or die. No torch here."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import gymnasium as gym

from mage_envs.env import TextGameEnv
from mage_envs.processes.call_outcomes import HANG, CallError, WorkerLost, attempt, format_traceback
from mage_envs.processes.watchdog import SLOW_AFTER_S, CallTimeout, Watchdog
from mage_envs.step_checks import check_reset, check_step

MakeEnv = Callable[[], gym.Env[Any, Any]]


class ResetCall(NamedTuple):
    """Arguments of a call of `reset`."""

    seed: int
    options: Mapping[str, Any] | None


class FailureInfoCall(NamedTuple):
    """A query after a failure: the answers that models gave to the opponents in this meta-episode.

    `info` holds them at the end of a meta-episode only, which a failed one never reaches.
    """


Call = ResetCall | FailureInfoCall | str
"""Call of an environment: start a meta-episode, play a reply, or report on a meta-episode that failed."""


class EnvCall(NamedTuple):
    """A call of the environment in a slot."""

    slot: int
    call: Call
    describe: Callable[[], str]
    """Function that describes the call, for messages about a wait."""


class EpisodeHistory(NamedTuple):
    """A meta-episode so far: everything that leads another environment to the same state."""

    start: ResetCall
    replies: list[str]
    observation: str
    """The latest observation."""


Outcome = tuple[int, Any]
"""A slot, and the result of `reset` or `step` there, `CallError` or `WorkerLost`."""


class EnvPool(ABC):
    """A player of moves, with at most one move under way per slot."""

    pause: float
    """Seconds for which the rollout may wait for the model while moves are under way."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of slots."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Return True if moves are under way."""

    @abstractmethod
    def submit(self, moves: Sequence[EnvCall], watch: Watchdog, deadline: float) -> None:
        """Start moves, each with a timeout of `deadline` seconds (0 disables it)."""

    @abstractmethod
    def poll(self, timeout: float | None) -> list[Outcome]:
        """Return the outcomes of the moves under way, in the order in which they began.

        Without a timeout it waits for all of them. With `timeout` it returns as soon as some have ended, or after that
        many seconds.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Forget the moves under way."""


class Environments:
    """Environments by slot.

    An environment that failed still answers a `FailureInfoCall`. The next meta-episode replaces it, if `make_env` is
    set.
    """

    def __init__(self, make_env: MakeEnv | None, envs: Sequence[gym.Env[Any, Any]] = ()) -> None:
        self._make_env = make_env
        self._envs = dict(enumerate(envs))
        self._failed: set[int] = set()

    def __call__(self, slot: int, call: Call | EpisodeHistory) -> Any:
        """Play one call. An `EpisodeHistory` replays a meta-episode in an environment that replaces a lost one."""
        if isinstance(call, FailureInfoCall):
            return model_calls(self._envs[slot]) if slot in self._envs else []
        # A failed environment is kept until the next call, because a `FailureInfoCall` still reads the opponents' calls
        # from it.
        if slot in self._failed and self._make_env is not None:
            self._envs.pop(slot, None)
        try:
            if slot not in self._envs and self._make_env is not None:
                self._envs[slot] = self._make_env()
            # After `make_env`: if that raises, the slot stays failed and the next call makes the environment again.
            self._failed.discard(slot)
            env = self._envs[slot]
            return _replay(env, call) if isinstance(call, EpisodeHistory) else _play(env, call)
        except BaseException:
            # `Watchdog` interrupts with an exception that is not an `Exception`. It leaves the environment in an
            # unknown state, too.
            self._failed.add(slot)
            raise

    def close(self) -> None:
        for env in self._envs.values():
            env.close()


def model_calls(env: gym.Env[Any, Any]) -> list[Mapping[str, Any]]:
    """Return the calls that models answered for the opponents of the running meta-episode.

    Returns an empty list if the environment is not a `TextGameEnv`.
    """
    inner = env.unwrapped
    return inner.seated.model_calls() if isinstance(inner, TextGameEnv) else []


def _play(env: gym.Env[Any, Any], call: ResetCall | str) -> Any:
    if isinstance(call, ResetCall):
        return check_reset(env.reset(seed=call.seed, options=None if call.options is None else dict(call.options)))
    return check_step(env.step(call))


def _replay(env: gym.Env[Any, Any], course: EpisodeHistory) -> None:
    observation = _play(env, course.start)[0]
    for reply in course.replies:
        observation = _play(env, reply)[0]
    # Environments may draw from other sources than their seed. The observation shows whether the replay reached the
    # same state.
    if observation != course.observation:
        raise RuntimeError(
            "its worker was lost in another meta-episode, and a replay from its seed and replies ended in another "
            "observation; reset and step must be deterministic for workers to replay a meta-episode"
        )


class InProcessEnvs(EnvPool):
    """A pool in this thread, which plays one move after the other.

    A late call is interrupted if `Watchdog` can interrupt it.
    """

    # The moves wait for this thread, so waiting for the model meanwhile would gain nothing.
    pause = 0.0

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], make_env: MakeEnv | None = None) -> None:
        self._count = len(envs)
        self._environments = Environments(make_env, envs)
        self._waiting: deque[tuple[EnvCall, Watchdog, float]] = deque()

    def __len__(self) -> int:
        return self._count

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def submit(self, moves: Sequence[EnvCall], watch: Watchdog, deadline: float) -> None:
        self._waiting += [(move, watch, deadline) for move in moves]

    def poll(self, timeout: float | None) -> list[Outcome]:
        """Play all moves, or one if a timeout is set, however long it takes.

        One at a time, so that the rollout can poll the model between two moves.
        """
        count = len(self._waiting) if timeout is None else min(len(self._waiting), 1)
        return [self._play(*self._waiting.popleft()) for _ in range(count)]

    def cancel(self) -> None:
        self._waiting.clear()

    def _play(self, move: EnvCall, watch: Watchdog, deadline: float) -> Outcome:
        def describe() -> str:
            return (
                f"{move.describe()} (in this process; use --env-workers 1 to play it in a process that can be stopped)"
            )

        try:
            outcome = watch.call(
                attempt, self._environments, move.slot, move.call, deadline=deadline, describe=describe
            )
        except CallTimeout as late:
            outcome = WorkerLost(HANG, str(late), format_traceback(late))
        return move.slot, outcome


class RolloutEnvs:
    """The environments of a run, in this process or in `workers` processes: as many as a rollout needs."""

    def __init__(self, make_env: MakeEnv, workers: int = 0, memory_gb: float = 0.0) -> None:
        self.in_process = [make_env()]
        """Environments in this process. The first one always exists, because the trainer reads its settings."""
        self.make_env, self._count, self._memory_gb = make_env, workers, memory_gb
        self._workers: WorkerProcessEnvs | None = None

    def pool(self, count: int) -> list[gym.Env[Any, Any]] | WorkerProcessEnvs:
        """Return `count` environments: a list in this process, or a pool of workers."""
        if not self._count:
            self.in_process += [self.make_env() for _ in range(len(self.in_process), count)]
            return self.in_process
        if self._workers is None:
            self._workers = WorkerProcessEnvs(self.make_env, count, self._count, memory_gb=self._memory_gb)
        self._workers.resize(count)
        return self._workers

    def renew(self) -> None:
        """Drop the environments of this process after a failure. Workers have replaced theirs already."""
        self.in_process = [self.make_env()]

    def close(self) -> None:
        """End the workers. The next `pool` starts new ones."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None


class WorkerProcessEnvs(EnvPool):
    """A pool of `count` environments in worker processes.

    Slot s belongs to worker s modulo `workers`, and each worker plays one call at a time. A hang or a death costs the
    meta-episode that was being played. The worker's other meta-episodes are replayed in a new process from their seeds
    and replies, so that their results do not change.
    """

    pause = 0.01

    def __init__(
        self, make_env: MakeEnv, count: int, workers: int, *, memory_gb: float = 0.0, slow_after: float = SLOW_AFTER_S
    ) -> None:
        """Start the pool.

        Args:
            make_env: Makes one environment. cloudpickle sends it to the workers.
            count: Number of environments (slots).
            workers: Number of worker processes.
            memory_gb: Limit of each process's address space in GiB (0: no limit).
            slow_after: Seconds after which a call is logged as slow.
        """
        # Imported here, because a rollout without workers starts no process.
        from mage_envs.processes.pool import Pool

        self._count = count
        self._report_slow: Callable[[str, float], None] | None = None
        self._pool = Pool(
            # `make_env` runs in the worker, so an environment never crosses a process boundary.
            partial(Environments, make_env),
            workers,
            memory_gb=memory_gb,
            slow_after=slow_after,
            on_slow=self._on_slow,
        )
        self._waiting: list[deque[EnvCall]] = [deque() for _ in range(workers)]
        self._returning: set[int] = set()
        """Workers that replay a meta-episode before they play its next move."""
        self._playing: dict[int, EnvCall] = {}
        """The running move of each worker."""
        self._order: list[int] = []
        """Slots with a move under way, in the order in which the moves began."""
        # One deadline for all moves: `begin` sets it, and a move that waits in a queue uses the newest.
        self._deadline = 0.0
        self._courses: dict[int, EpisodeHistory] = {}
        self._lives: dict[int, int] = {}
        """Number of starts of the slot's worker when it last played the slot; a higher one means a new process."""

    def __len__(self) -> int:
        return self._count

    def resize(self, count: int) -> None:
        """Change the number of environments. Each is made when it is first used."""
        self._count = count

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    @property
    def busy(self) -> bool:
        return bool(self._order)

    def submit(self, moves: Sequence[EnvCall], watch: Watchdog, deadline: float) -> None:
        self._report_slow, self._deadline = watch.on_slow, deadline
        for move in moves:
            self._order.append(move.slot)
            worker = move.slot % len(self._pool)
            self._waiting[worker].append(move)
            # A busy worker takes the next move of its queue when it reports an outcome.
            if worker not in self._playing:
                self._begin_next(worker)

    def poll(self, timeout: float | None) -> list[Outcome]:
        outcome_by_slot: dict[int, Any] = {}
        until = time.monotonic() + (timeout or 0.0)
        while self._playing:
            patience = inf
            if timeout is not None:
                # With an outcome in hand, only collect the outcomes that are ready already.
                patience = 0.0 if outcome_by_slot else max(until - time.monotonic(), 0.0)
            next_one = self._pool.outcome_within(patience)
            if next_one is None:
                break
            # An empty dict here (a replay has ended) leaves `outcome_by_slot` as it is, and the loop keeps waiting.
            outcome_by_slot |= self._on_outcome(*next_one)
        outcomes = [(slot, outcome_by_slot[slot]) for slot in self._order if slot in outcome_by_slot]
        self._order = [slot for slot in self._order if slot not in outcome_by_slot]
        return outcomes

    def cancel(self) -> None:
        for queue in self._waiting:
            queue.clear()
        self._playing, self._returning, self._order = {}, set(), []

    def _on_outcome(self, worker: int, outcome: Any) -> dict[int, Any]:
        """Process a worker's outcome; return the slot and the outcome of its move if that move has ended.

        Returns an empty dict if the worker has only finished a replay, or if its move was dropped.
        """
        # `cancel` forgot this move after an error. Its late outcome belongs to no meta-episode any more.
        if worker not in self._playing:
            return {}
        move = self._playing[worker]
        if worker in self._returning and not isinstance(outcome, CallError | WorkerLost):
            # The replay succeeded, so the worker can now play the move itself.
            self._returning.remove(worker)
            self._pool.call(worker, move.slot, move.call, deadline=self._deadline)
            return {}
        # A replay that failed ends the move, too: its error becomes the move's outcome.
        self._returning.discard(worker)
        del self._playing[worker]
        self._update_history(move, outcome)
        self._begin_next(worker)
        return {move.slot: outcome}

    def _begin_next(self, worker: int) -> None:
        if not self._waiting[worker]:
            return
        move = self._playing[worker] = self._waiting[worker].popleft()
        # `revive` starts a dead worker. Its count of starts shows whether this process has played the slot before.
        life = self._pool.revive(worker)
        if isinstance(move.call, ResetCall | FailureInfoCall) or life == self._lives[move.slot]:
            self._pool.call(worker, move.slot, move.call, deadline=self._deadline)
        else:
            course = self._courses[move.slot]
            # A replay plays one call per reply and a reset, so it gets one timeout for each.
            self._returning.add(worker)
            self._pool.call(worker, move.slot, course, deadline=self._deadline * (1 + len(course.replies)))
        self._lives[move.slot] = life

    def _update_history(self, move: EnvCall, outcome: Any) -> None:
        """Store what a replay of the slot's meta-episode needs after this move."""
        if isinstance(move.call, FailureInfoCall) or isinstance(outcome, CallError | WorkerLost):
            # A meta-episode that failed, or ended with a query, is never replayed.
            self._courses.pop(move.slot, None)
        elif isinstance(move.call, ResetCall):
            self._courses[move.slot] = EpisodeHistory(move.call, [], outcome[0])
        else:
            start, replies, _ = self._courses[move.slot]
            replies.append(move.call)
            self._courses[move.slot] = EpisodeHistory(start, replies, outcome[0])

    def _on_slow(self, worker: int, seconds: float) -> None:
        if self._report_slow is not None and worker in self._playing:
            self._report_slow(self._playing[worker].describe(), seconds)
