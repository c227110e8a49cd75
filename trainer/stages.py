"""Where environments are played: in this process, or in worker processes that may hang and die. No torch here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import gymnasium as gym

from mage_envs.processes import SLOW, Late, Lost, Pool, Raised, Watch, attempt
from mage_envs.processes.outcomes import HANG, told

MakeEnv = Callable[[], gym.Env[Any, Any]]


class Start(NamedTuple):
    """A call of `reset`."""

    seed: int
    options: Mapping[str, Any] | None


Call = Start | str
"""What an environment is asked: to start a meta-episode, or to take a reply."""


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


class Stage(Protocol):
    """Plays moves. The outcomes are what `reset` or `step` gave, `Raised` or `Lost`, in the order of the moves."""

    def __len__(self) -> int: ...

    def play(self, moves: Sequence[Move], watch: Watch, deadline: float) -> list[Any]: ...


class Environments:
    """Environments by slot; one that failed is made anew for the next meta-episode, if `make_env` is given."""

    def __init__(self, make_env: MakeEnv | None, envs: Sequence[gym.Env[Any, Any]] = ()) -> None:
        self._make_env = make_env
        self._envs = dict(enumerate(envs))

    def __call__(self, slot: int, call: Call | Course) -> Any:
        """Plays one call; a `Course` leads a new environment to where a lost one was."""
        try:
            if slot not in self._envs and self._make_env is not None:
                self._envs[slot] = self._make_env()
            env = self._envs[slot]
            return _replay(env, call) if isinstance(call, Course) else _play(env, call)
        except BaseException:
            if self._make_env is not None:
                self._envs.pop(slot, None)
            raise

    def close(self) -> None:
        for env in self._envs.values():
            env.close()


def _play(env: gym.Env[Any, Any], call: Call) -> Any:
    if isinstance(call, Start):
        return env.reset(seed=call.seed, options=None if call.options is None else dict(call.options))
    return env.step(call)


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

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], make_env: MakeEnv | None = None) -> None:
        self._count = len(envs)
        self._environments = Environments(make_env, envs)

    def __len__(self) -> int:
        return self._count

    def play(self, moves: Sequence[Move], watch: Watch, deadline: float) -> list[Any]:
        return [self._play(move, watch, deadline) for move in moves]

    def _play(self, move: Move, watch: Watch, deadline: float) -> Any:
        try:
            return watch.call(attempt, self._environments, move.slot, move.call, deadline=deadline, who=move.who)
        except Late as late:
            return Lost(HANG, str(late), told(late))


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
        self._waiting: list[deque[tuple[int, Move]]] = [deque() for _ in range(workers)]
        self._returning: set[int] = set()
        """Workers that lead an environment back to where it was, before its move."""
        self._playing: dict[int, tuple[int, Move]] = {}
        """By worker: its running move, and the place of that among the moves."""
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

    def play(self, moves: Sequence[Move], watch: Watch, deadline: float) -> list[Any]:
        self._told = watch.tell
        outcomes: list[Any] = [None] * len(moves)
        for queue in self._waiting:
            queue.clear()
        for place, move in enumerate(moves):
            self._waiting[move.slot % len(self._pool)].append((place, move))
        self._playing, self._returning = {}, set()
        for worker in range(len(self._pool)):
            self._begin_next(worker, deadline)
        while self._playing:
            worker, outcome = self._pool.next_outcome()
            place, move = self._playing[worker]
            if worker in self._returning and not isinstance(outcome, Raised | Lost):
                self._returning.remove(worker)
                self._pool.call(worker, move.slot, move.call, deadline=deadline)
                continue
            self._returning.discard(worker)
            del self._playing[worker]
            outcomes[place] = outcome
            self._note(move, outcome)
            self._begin_next(worker, deadline)
        return outcomes

    def _begin_next(self, worker: int, deadline: float) -> None:
        if not self._waiting[worker]:
            return
        self._playing[worker] = self._waiting[worker].popleft()
        _, move = self._playing[worker]
        life = self._pool.revive(worker)
        if isinstance(move.call, Start) or life == self._lives[move.slot]:
            self._pool.call(worker, move.slot, move.call, deadline=deadline)
        else:
            course = self._courses[move.slot]
            self._returning.add(worker)
            self._pool.call(worker, move.slot, course, deadline=deadline * (1 + len(course.replies)))
        self._lives[move.slot] = life

    def _note(self, move: Move, outcome: Any) -> None:
        """Keeps what leads back to where the slot's meta-episode is now."""
        if isinstance(outcome, Raised | Lost):
            self._courses.pop(move.slot, None)
        elif isinstance(move.call, Start):
            self._courses[move.slot] = Course(move.call, [], outcome[0])
        else:
            start, replies, _ = self._courses[move.slot]
            replies.append(move.call)
            self._courses[move.slot] = Course(start, replies, outcome[0])

    def _on_slow(self, worker: int, seconds: float) -> None:
        if self._told is not None and worker in self._playing:
            self._told(self._playing[worker][1].who(), seconds)
