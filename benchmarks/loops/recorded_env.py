"""`RecordedEnv`: the one wrapper of a recorded loop. Its meta-episodes are the trajectories that `collect` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym

from mage_envs.core import Task
from mage_envs.env import TextGameEnv
from mage_envs.processes.call_outcomes import CallError, attempt
from mage_envs.random.streams import SEED_BITS
from mage_envs.text.generation import Completion, check_completion
from mage_envs.wrappers.rollout.env_pool import Environments
from mage_envs.wrappers.rollout.playing import MetaEpisodeRollout, RolloutSpec
from mage_envs.wrappers.rollout.trajectory import Trajectory

_OPTIONS = {"opponent": "opponent", "seat": "seat", "task": "task_id", "rotation": "rotation"}
"""Options of `reset` to the fields of a task."""


class RecordedEnv(gym.Wrapper[str, str, str, str]):
    """Environment whose meta-episodes are recorded when they end.

    `step` takes a reply as text, or as `mage_envs.Completion` with its tokens and its reasoning. Other wrappers belong
    around this one, because a replay makes the environment from its id.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        env_id: str,
        on_finished: Callable[[Trajectory], None],
        *,
        task: Task | None = None,
        judge: Callable[[Trajectory], dict[str, float]] = lambda trajectory: {},
    ) -> None:
        """Wrap an environment.

        Args:
            env: What `gym.make` returns for the id.
            env_id: Registered id, which the tasks name.
            on_finished: Function that stores a meta-episode that ended or failed.
            task: The only task to play (default: any seed and options).
            judge: Function that returns the columns of a meta-episode.
        """
        super().__init__(env)
        self._env_id, self._on_finished, self._task, self._judge = env_id, on_finished, task, judge
        # It checks what an environment returns, as in an evaluation.
        self._environments = Environments(None, [env])
        self._rollout: MetaEpisodeRollout | None = None
        self.settle: Callable[[], object] = lambda: None
        """Function that `close` calls once."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a meta-episode. One that is not finished is not recorded.

        Args:
            seed: Seed of the task. An environment of `rows` has its own.
            options: `opponent`, `seat`, `task` and `rotation`, as for the environment itself.
        """
        self._rollout = MetaEpisodeRollout(0, RolloutSpec(self._choose_task(seed, options)))
        observation, info = self._play()
        return observation, info

    def step(self, action: str | Completion) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the prompt with a reply."""
        if self._rollout is None or self._rollout.over:
            raise RuntimeError("The meta-episode is over. Call reset before step.")
        if not isinstance(action, str | Completion):
            raise TypeError(f"step() expects a text or mage_envs.Completion, got {type(action).__name__}.")
        reply = check_completion(action, "step()") if isinstance(action, Completion) else Completion(str(action))
        self._rollout.on_completion(reply)
        if self._rollout.failed:
            self._finish()
            raise RuntimeError(self._rollout.failures[-1].reason)
        result: tuple[str, float, bool, bool, dict[str, Any]] = self._play()
        return result

    def columns(self) -> dict[str, float]:
        """Return the exact columns of the meta-episode that ended: `level`, `regret` and `best`.

        The regret and the best possible value are per hand in the game's unit. A row under a control has `own_memory`
        or `other_memory` too. The level of a whole panel weighs the opponents: it is in `Rows.results`. Empty if the
        decisions cannot be judged exactly.
        """
        if self._rollout is None or not self._rollout.over:
            raise RuntimeError("The meta-episode is not over. Call columns after its last step.")
        return self._judge(self._rollout.trajectory())

    def close(self) -> None:
        super().close()
        self.settle()

    def _choose_task(self, seed: int | None, options: Mapping[str, Any] | None) -> Task:
        """Return the task of a reset."""
        options = options or {}
        if self._task is not None:
            if (seed is not None and seed != self._task.seed) or (options and options != self._task.options()):
                raise ValueError("This environment plays one row. Call reset() without a seed and options.")
            return self._task
        if unknown := sorted(options.keys() - set(_OPTIONS)):
            raise ValueError(f"A recorded environment has the options {', '.join(_OPTIONS)}, got {unknown[0]!r}.")
        if seed is None:
            # The record names the seed that was drawn, so that the meta-episode can be played again.
            seed = int(self.np_random.integers(2**SEED_BITS))
        return Task(self._env_id, seed=seed, **{_OPTIONS[name]: value for name, value in options.items()})

    def _play(self) -> Any:
        """Make the next call of the environment, and return its result or raise its error, after it is recorded."""
        rollout = self._rollout
        assert rollout is not None
        outcome = attempt(self._environments, 0, rollout.call)
        rollout.on_env_result(outcome)
        # With a wrong option the meta-episode never began, so it did not fail.
        if rollout.misused is None:
            self._finish()
        if isinstance(outcome, CallError):
            raise outcome.error
        return outcome

    def _finish(self) -> None:
        """Store the meta-episode if it is over."""
        rollout = self._rollout
        assert rollout is not None
        if rollout.failed and not rollout.over:
            # A failed one still reports the calls of its opponents.
            rollout.on_env_result(attempt(self._environments, 0, rollout.call))
        if rollout.over:
            trajectory = rollout.trajectory()
            # A row has its task already. Elsewhere the environment drew what the reset did not choose.
            task = trajectory.task if self._task is not None else met_task(trajectory, self.env)
            self._on_finished(replace(trajectory, task=task))


def met_task(trajectory: Trajectory, env: gym.Env[Any, Any]) -> Task:
    """Return the task of a meta-episode with the opponent and the seat that the environment drew for it.

    Args:
        trajectory: The meta-episode, which may have failed.
        env: The environment that played it. It names the opponent of one that failed.
    """
    task, inner = trajectory.task, env.unwrapped
    if trajectory.episodes:
        seat = trajectory.episodes[0].seats[0] if trajectory.opponent else task.seat
        return replace(task, opponent=trajectory.opponent or None, seat=seat)
    drawn = inner.seated.name if isinstance(inner, TextGameEnv) and inner.seated.others else None
    # A record names a seat, and no rule such as `first`.
    return replace(task, opponent=drawn, seat=task.seat if isinstance(task.seat, int) else None)
