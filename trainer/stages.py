"""Where environments are played: in this process, or in worker processes that may hang and die. No torch here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium as gym

from mage_envs.env import TextGameEnv
from mage_envs.processes import SLOW, Late, Lost, Pool, Raised, Watch, attempt
from mage_envs.processes.outcomes import HANG, told
from mage_envs.returned import checked_reset, checked_step

MakeEnv = Callable[[], gym.Env[Any, Any]]


class Start(NamedTuple):
    """A call of `reset`."""

    seed: int
    options: Mapping[str, Any] | None


class Tell(NamedTuple):
    """A question, after a failure: what models answered the opponents in the meta-episode, which `info` tells at its
    end alone."""


Call = Start | Tell | str
"""What an environment is asked: to start a meta-episode, to take a reply, or to tell of one that failed."""


class Move(NamedTuple):
    """A call of the environment in a slot."""

    slot: int
    call: Call
    who: Callable[[], str]
    """Says in words what is waited for."""


class Course(NamedTuple):
    """A meta-episode up to now: what leads an environment back to where it was."""

    start: Start
    replies: list[str]
    shown: str
    """What the environment showed last."""


Outcome = tuple[int, Any]
"""A slot, and what `reset` or `step` gave there, `Raised` or `Lost`."""


@runtime_checkable
class Stage(Protocol):
    """Plays moves, one in a slot at a time."""

    pause: float
    """Seconds for which its user may wait for something else while moves are under way."""

    def __len__(self) -> int: ...

    @property
    def busy(self) -> bool:
        """Whether moves are under way."""
        ...

    def begin(self, moves: Sequence[Move], watch: Watch, deadline: float) -> None:
        """Starts moves, each with `deadline` seconds."""

    def ended(self, timeout: float | None) -> list[Outcome]:
        """The outcomes of all that is under way, in the order in which they began; with `timeout`, of what has ended
        within that many seconds: as soon as something has."""
        ...

    def drop(self) -> None:
        """Forgets what is under way."""


class Environments:
    """Environments by slot; one that failed can still tell of that, and is made anew for the next meta-episode, if
    `make_env` is given."""

    def __init__(self, make_env: MakeEnv | None, envs: Sequence[gym.Env[Any, Any]] = ()) -> None:
        self._make_env = make_env
        self._envs = dict(enumerate(envs))
        self._failed: set[int] = set()

    def __call__(self, slot: int, call: Call | Course) -> Any:
        """Plays one call; a `Course` leads a new environment to where a lost one was."""
        if isinstance(call, Tell):
            return told_calls(self._envs[slot]) if slot in self._envs else []
        if slot in self._failed and self._make_env is not None:
            self._envs.pop(slot, None)
        try:
            if slot not in self._envs and self._make_env is not None:
                self._envs[slot] = self._make_env()
            self._failed.discard(slot)
            env = self._envs[slot]
            return _replay(env, call) if isinstance(call, Course) else _play(env, call)
        except BaseException:
            self._failed.add(slot)
            raise

    def close(self) -> None:
        for env in self._envs.values():
            env.close()


def told_calls(env: gym.Env[Any, Any]) -> list[Mapping[str, Any]]:
    """What models answered the opponents of the running meta-episode so far; nothing in an environment not of ours."""
    inner = env.unwrapped
    return inner.seated.told_calls() if isinstance(inner, TextGameEnv) else []


def _play(env: gym.Env[Any, Any], call: Start | str) -> Any:
    if isinstance(call, Start):
        return checked_reset(env.reset(seed=call.seed, options=None if call.options is None else dict(call.options)))
    return checked_step(env.step(call))


def _replay(env: gym.Env[Any, Any], course: Course) -> None:
    shown = _play(env, course.start)[0]
    for reply in course.replies:
        shown = _play(env, reply)[0]
    if shown != course.shown:
        raise RuntimeError(
            "its worker was lost through another meta-episode, and it could not be led back to where it was: "
            "what it shows does not follow from its seed and the replies"
        )


class Here:
    """In this thread, one after the other. A late call is interrupted, as far as `Watch` can."""

    pause = 0.0  # the moves wait for this thread

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], make_env: MakeEnv | None = None) -> None:
        self._count = len(envs)
        self._environments = Environments(make_env, envs)
        self._waiting: deque[tuple[Move, Watch, float]] = deque()

    def __len__(self) -> int:
        return self._count

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def begin(self, moves: Sequence[Move], watch: Watch, deadline: float) -> None:
        self._waiting += [(move, watch, deadline) for move in moves]

    def ended(self, timeout: float | None) -> list[Outcome]:
        """With a timeout one move is played, however long it takes: between two moves the model can be heard."""
        count = len(self._waiting) if timeout is None else min(len(self._waiting), 1)
        return [self._play(*self._waiting.popleft()) for _ in range(count)]

    def drop(self) -> None:
        self._waiting.clear()

    def _play(self, move: Move, watch: Watch, deadline: float) -> Outcome:
        def who() -> str:
            return f"{move.who()} (in this process; --env-workers 1 plays it in another one, which can be stopped)"

        try:
            outcome = watch.call(attempt, self._environments, move.slot, move.call, deadline=deadline, who=who)
        except Late as late:
            outcome = Lost(HANG, str(late), told(late))
        return move.slot, outcome


class RunEnvs:
    """The environments of a run: as many as a rollout needs, in this process or in `workers` processes."""

    def __init__(self, make_env: MakeEnv, workers: int = 0, memory_gb: float = 0.0) -> None:
        self.here = [make_env()]
        """In this process; the first one always, which tells what is played."""
        self.make_env, self._count, self._memory_gb = make_env, workers, memory_gb
        self._workers: WorkerEnvs | None = None

    def stage(self, count: int) -> list[gym.Env[Any, Any]] | WorkerEnvs:
        """`count` environments."""
        if not self._count:
            self.here += [self.make_env() for _ in range(len(self.here), count)]
            return self.here
        if self._workers is None:
            self._workers = WorkerEnvs(self.make_env, count, self._count, memory_gb=self._memory_gb)
        self._workers.resize(count)
        return self._workers

    def renew(self) -> None:
        """Drops the environments of this process, some of which broke; those in workers were replaced already."""
        self.here = [self.make_env()]

    def close(self) -> None:
        """Ends the workers, which start anew with the next `stage`."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None


class WorkerEnvs:
    """`count` environments in worker processes: slot s in worker s modulo `workers`, one call at a time in each.

    A hang or a death costs the meta-episode that was being played. The others of that worker are led back to where
    they were in a new process, by their seeds and replies: nobody can tell that anything happened to them.
    """

    pause = 0.01

    def __init__(
        self, make_env: MakeEnv, count: int, workers: int, *, memory_gb: float = 0.0, slow_after: float = SLOW
    ) -> None:
        """`memory_gb`: address space of each process in GiB; 0: no limit. `make_env` is sent to the workers."""
        self._count = count
        self._told: Callable[[str, float], None] | None = None
        self._pool = Pool(
            partial(Environments, make_env),
            workers,
            memory_gb=memory_gb,
            slow_after=slow_after,
            on_slow=self._on_slow,
        )
        self._waiting: list[deque[Move]] = [deque() for _ in range(workers)]
        self._returning: set[int] = set()
        """Workers that lead an environment back to where it was, before its move."""
        self._playing: dict[int, Move] = {}
        """By worker: its running move."""
        self._order: list[int] = []
        """Slots with a move under way, as they began."""
        self._deadline = 0.0
        self._courses: dict[int, Course] = {}
        self._lives: dict[int, int] = {}
        """By slot: the life of its worker that knows it."""

    def __len__(self) -> int:
        return self._count

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Process ids of the workers, None for one that is not running."""
        return self._pool.processes

    def resize(self, count: int) -> None:
        """Changes the number of environments; they are made as they are needed."""
        self._count = count

    def close(self) -> None:
        """Ends the workers."""
        self._pool.close()

    @property
    def busy(self) -> bool:
        return bool(self._order)

    def begin(self, moves: Sequence[Move], watch: Watch, deadline: float) -> None:
        self._told, self._deadline = watch.tell, deadline
        for move in moves:
            self._order.append(move.slot)
            worker = move.slot % len(self._pool)
            self._waiting[worker].append(move)
            if worker not in self._playing:
                self._begin_next(worker)

    def ended(self, timeout: float | None) -> list[Outcome]:
        found: dict[int, Any] = {}
        until = time.monotonic() + (timeout or 0.0)
        while self._playing:
            patience = inf if timeout is None else 0.0 if found else max(until - time.monotonic(), 0.0)
            next_one = self._pool.outcome_within(patience)
            if next_one is None:
                break
            found |= self._hear(*next_one)
        outcomes = [(slot, found[slot]) for slot in self._order if slot in found]
        self._order = [slot for slot in self._order if slot not in found]
        return outcomes

    def drop(self) -> None:
        for queue in self._waiting:
            queue.clear()
        self._playing, self._returning, self._order = {}, set(), []

    def _hear(self, worker: int, outcome: Any) -> dict[int, Any]:
        """A worker's news, by slot: nothing where it goes on with the same move, or where that was dropped."""
        if worker not in self._playing:
            return {}
        move = self._playing[worker]
        if worker in self._returning and not isinstance(outcome, Raised | Lost):
            self._returning.remove(worker)
            self._pool.call(worker, move.slot, move.call, deadline=self._deadline)
            return {}
        self._returning.discard(worker)
        del self._playing[worker]
        self._note(move, outcome)
        self._begin_next(worker)
        return {move.slot: outcome}

    def _begin_next(self, worker: int) -> None:
        if not self._waiting[worker]:
            return
        move = self._playing[worker] = self._waiting[worker].popleft()
        life = self._pool.revive(worker)
        if isinstance(move.call, Start | Tell) or life == self._lives[move.slot]:
            self._pool.call(worker, move.slot, move.call, deadline=self._deadline)
        else:
            course = self._courses[move.slot]
            self._returning.add(worker)
            self._pool.call(worker, move.slot, course, deadline=self._deadline * (1 + len(course.replies)))
        self._lives[move.slot] = life

    def _note(self, move: Move, outcome: Any) -> None:
        """Keeps what leads back to where the slot's meta-episode is now."""
        if isinstance(move.call, Tell) or isinstance(outcome, Raised | Lost):
            self._courses.pop(move.slot, None)
        elif isinstance(move.call, Start):
            self._courses[move.slot] = Course(move.call, [], outcome[0])
        else:
            start, replies, _ = self._courses[move.slot]
            replies.append(move.call)
            self._courses[move.slot] = Course(start, replies, outcome[0])

    def _on_slow(self, worker: int, seconds: float) -> None:
        if self._told is not None and worker in self._playing:
            self._told(self._playing[worker].who(), seconds)
