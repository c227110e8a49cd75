"""`evaluate`: an agent on a panel, through the one rollout loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from benchmarks.evaluation.agents import Agent
from benchmarks.evaluation.asking import SPENT, Limits, guarded
from benchmarks.evaluation.environments import check_opponents, env_maker, game_of
from mage_envs.core import Task
from mage_envs.processes import DEADLINE
from mage_envs.processes.outcomes import TRACEBACK
from mage_envs.progress import Progress
from trainer.ledger import Ledger
from trainer.rollout import RolloutSpec, collect
from trainer.stages import RunEnvs
from trainer.trajectory import Trajectory


class PanelPlayer:
    """Plays tasks of one environment by one agent. Environments are made as they are needed, and serve all that is
    asked until `close`."""

    def __init__(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        env_kwargs: Mapping[str, Any] | None = None,
        *,
        workers: int = 0,
        memory_gb: float = 0.0,
        limits: Limits | None = None,
    ) -> None:
        """`tasks`: those that may be asked for; the rest as in `evaluate`."""
        env_id = tasks[0].env_id
        game = game_of(env_id, env_kwargs)
        self._generator = guarded(agent.generator(game), limits)
        check_opponents(tasks, game)
        self._envs = RunEnvs(env_maker(env_id, env_kwargs), workers, memory_gb)

    def __call__(
        self,
        tasks: Sequence[Task],
        batch: int,
        env_timeout: float,
        *,
        on_step: Callable[[int, int], None] | None = None,
        on_finished: Callable[[int, Trajectory], None] | None = None,
        reduce: Callable[[Trajectory], Trajectory] | None = None,
    ) -> list[Trajectory]:
        """The meta-episodes of these tasks, in their order; what breaks is played once more."""
        played = collect(
            self._envs.stage(min(batch, len(tasks))),
            self._generator,
            [RolloutSpec(task) for task in tasks],
            env_timeout=env_timeout,
            make_env=self._envs.make_env,
            on_step=on_step,
            on_finished=on_finished,
            reduce=reduce,
        )
        if any(trajectory.failures for trajectory in played):
            self._envs.renew()
        return played

    def close(self) -> None:
        """Ends the worker processes."""
        self._envs.close()


def evaluate(
    agent: Agent,
    panel: Sequence[Task],
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int = 256,
    workers: int = 0,
    env_timeout: float = DEADLINE,
    memory_gb: float = 0.0,
    on_step: Callable[[int, int], None] | None = None,
    on_finished: Callable[[int, Trajectory], None] | None = None,
    reduce: Callable[[Trajectory], Trajectory] | None = None,
    limits: Limits | None = None,
    ledger: Ledger | None = None,
) -> list[Trajectory]:
    """Plays every task of `panel` once, through all wrappers that its id brings; the trajectories come in its order.

    `batch` meta-episodes advance together. `workers`: processes in which environments and opponents play (0: this one),
    each with `memory_gb` GiB of address space (0: no limit). `env_timeout`: seconds that an environment with its
    opponents has for a move (0: for ever).
    A generator that streams (`submit` and `poll`) is asked so: no meta-episode waits for another's reply. `limits`:
    what may be spent; what is not played for want of it has a `failure` of the kind `generator: budget`.

    `on_step(done, all)` is called after each round, `on_finished(place in the panel, trajectory)` for each meta-episode
    that is final; `reduce(trajectory)` makes of each what is returned, if it is to take less memory. What breaks is
    played once more and then filed with its `failure`; if everything broke, RuntimeError tells the first reason.
    `ledger` keeps tracebacks, also that of an error that ends it. Replies do not depend on `batch` or `workers`.
    """
    if not panel:
        raise ValueError("The panel holds no task.")
    if len({task.env_id for task in panel}) > 1:
        raise ValueError("The tasks of a panel must share one environment id; evaluate each id by itself.")
    if batch < 1 or workers < 0:
        raise ValueError(f"evaluate() needs batch >= 1 and workers >= 0, got {batch} and {workers}.")
    if memory_gb and not workers:
        raise ValueError(f"memory_gb={memory_gb:g} limits worker processes; ask for at least one worker.")
    workers = min(workers, batch, len(panel))
    player = PanelPlayer(agent, panel, env_kwargs, workers=workers, memory_gb=memory_gb, limits=limits)
    kept = nullcontext() if ledger is None else ledger.kept("eval", 0)
    with closing(player), kept:
        trajectories = player(panel, batch, env_timeout, on_step=on_step, on_finished=on_finished, reduce=reduce)
    account(trajectories, agent.name, ledger)
    return trajectories


def account(trajectories: Sequence[Trajectory], agent: str, ledger: Ledger | None) -> None:
    """Writes down what broke; raises RuntimeError with the first reason where everything did."""
    if ledger is not None:
        ledger.record([t for t in trajectories if not lacked_budget(t)], "eval", 0)
    failures = [t.failure for t in trajectories if t.failure is not None]
    if len(failures) == len(trajectories) and not any(lacked_budget(t) for t in trajectories):
        error = RuntimeError(f"All {len(failures)} meta-episodes of {agent} broke; the first: {failures[0]}")
        if ledger is not None:
            error.add_note(f"{TRACEBACK} {ledger.path}")
        raise error


def lacked_budget(trajectory: Trajectory) -> bool:
    """Whether a meta-episode was not played to its end for want of a budget."""
    return (trajectory.failure or "").startswith(f"generator: {SPENT}: ")


@contextmanager
def ledger_in(folder: Path | None) -> Iterator[Ledger]:
    """A ledger in that folder; without one, in a temporary folder, which stays if something failed.

    At the end, the totals of what failed meanwhile go to stderr, with the file's name.
    """
    ledger = Ledger(folder or mkdtemp(prefix="mage-eval-"))
    ledger.resume(0)
    before = ledger.count
    try:
        yield ledger
        if ledger.count > before:
            sys.stderr.write(f"{ledger.told()}\n")
    finally:
        if folder is None and not ledger.path.exists():
            ledger.path.parent.rmdir()


def progress_of(what: str, unit: str = "meta-episodes") -> Progress:
    """Tells of work that is known to take long, from its beginning on."""
    return Progress(what, 0, unit, at_once=True)
