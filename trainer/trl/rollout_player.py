"""`RolloutPlayer`: plays the rollouts of one rank, with interruptions, and exchanges the results between ranks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import NamedTuple, cast

import torch
from accelerate.utils import gather_object

from mage_envs.text.generation import StreamingGenerator
from mage_envs.trainer.backends.cached import CopiedGenerator
from mage_envs.trainer.method.advantages import CreditConfig, mask_non_finite, without_variance
from mage_envs.trainer.method.tasks import redraw_groups, rollout_specs
from mage_envs.trainer.runs.preemption import Preempted, Preemption
from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.backend_registry import AnyGenerator
from mage_envs.trainer.trl.callbacks import RolloutProgress
from mage_envs.trainer.trl.trainer_hooks import TrainerHooks
from mage_envs.wrappers.rollout.env_pool import RolloutEnvs
from mage_envs.wrappers.rollout.exploitability import exploitability
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.loop import RolloutClock, RolloutSpec, collect
from mage_envs.wrappers.rollout.trajectory import Trajectory

CANCEL_TIMEOUT_S = 60.0
"""Timeout in seconds for a rollout to end after `cancel`."""
_log = logging.getLogger(__name__)


class RolloutCancelled(BaseException):
    """Signal that ends an abandoned rollout."""

    # A BaseException, so that no `except Exception` on the way up turns it into a failed meta-episode.


class AsyncRollout:
    """A rollout that a thread plays with the weights that the sampler holds at its start.

    Args:
        index: Index of the rollout in the run.
        step: Optimiser steps of the run when the rollout starts, from which its staleness is counted.
        play: Function that plays the rollout. It receives a clock, and a check to call between replies.
    """

    def __init__(
        self, index: int, step: int, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]
    ) -> None:
        self.index, self.step = index, step
        self.clock = RolloutClock()
        self._played: Future[list[Trajectory]] = Future()
        self._given_up = False
        # A daemon, so that a rollout that hangs cannot keep the process alive at its end.
        self._thread = threading.Thread(target=self._run, args=(play,), daemon=True, name="mage-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Block until the thread ends, with a result or with an error."""
        self._thread.join()

    def result(self) -> list[Trajectory]:
        """Return the trajectories after the thread ends, or raise the error that ended it."""
        return self._played.result()

    def cancel(self) -> None:
        """Stop the rollout at its next reply, and wait up to `CANCEL_TIMEOUT_S` seconds for it."""
        self._given_up = True
        self._thread.join(CANCEL_TIMEOUT_S)
        if self._thread.is_alive():
            _log.warning("Rollout %d, which was played ahead, did not end within %.0f s.", self.index, CANCEL_TIMEOUT_S)

    def _run(self, play: Callable[[RolloutClock, Callable[..., None]], list[Trajectory]]) -> None:
        try:
            self._played.set_result(play(self.clock, self._check))
        # An error that leaves a thread is only printed. `result` raises it in the trainer's thread instead.
        except BaseException as error:
            self._played.set_exception(error)

    def _check(self, *progress: object) -> None:
        if self._given_up:
            raise RolloutCancelled


class PlayedRollout(NamedTuple):
    """Meta-episodes of all ranks, sorted by group and member."""

    everything: list[Trajectory]
    trained: list[Trajectory]
    """The meta-episodes to train on."""
    clock: RolloutClock
    metrics: dict[str, float]
    """Metrics of a rollout that was played ahead."""


class RolloutPlayer:
    """Plays rollouts and evaluations with the model under training.

    Args:
        trainer: The trainer, for its model, settings, accelerator and step count.
        eval_envs: Environments of the evaluation panel; `envs` if the run has no panel.
        control_envs: The same without memory; None if evaluations are not played without it.
        env_id: Id of the training environment; empty if `gym.make` did not make it.
        weights: Returns the current weights of the opponents; None if there are none.
        credit: Settings of returns and advantages, which decide if a return is finite.
        preemption: Signal that ends the run.
    """

    def __init__(
        self,
        trainer: TrainerHooks,
        *,
        generator: AnyGenerator,
        envs: RolloutEnvs,
        eval_envs: RolloutEnvs,
        control_envs: RolloutEnvs | None,
        env_id: str,
        weights: Callable[[], Mapping[str, float] | None],
        credit: CreditConfig,
        log: FailureLog,
        run_log: RunLog,
        progress: RolloutProgress,
        preemption: Preemption,
    ) -> None:
        self.generator = generator
        self.training = False
        """True while `train` runs."""
        self._trainer, self._accelerator = trainer, trainer.accelerator
        self._envs, self._eval_envs, self._control_envs = envs, eval_envs, control_envs
        self._env_id, self._weights, self._credit = env_id, weights, credit
        self._log, self._run_log, self._progress, self._preemption = log, run_log, progress, preemption
        self._begun = False
        """True if this process has played before."""
        self._ahead: AsyncRollout | None = None

    def close(self) -> None:
        """Stop a rollout that is being played ahead, and the worker processes."""
        self.cancel_ahead()
        self._envs.close()
        self._eval_envs.close()
        if self._control_envs is not None:
            self._control_envs.close()

    def exploitability(self, index: int) -> dict[str, float]:
        """Return the NashConv of the current model in its training game."""
        env = self._envs.in_process[0]
        with self._session():
            measurement = exploitability(
                self.generator,
                env.get_wrapper_attr("game"),
                env.get_wrapper_attr("style"),
                samples=self._trainer.args.exploitability_samples,
                num_episodes=env.get_wrapper_attr("num_episodes"),
                seed=self._trainer.args.seed + index,
                resamples=50,
                deadline=0.0 if self._generates_together() else self._trainer.args.model_timeout,
            )
        return measurement.metrics()

    def play_rollout(self, index: int) -> PlayedRollout:
        """Play a rollout, unless it was played ahead.

        Groups without variance are redrawn up to `dynamic_sampling` times. The last draw is kept in any case.
        """
        specs, metrics = self._specs(index), dict[str, float]()
        if self._ahead is not None and self._ahead.index == index:
            ahead, start_time = self._ahead, time.perf_counter()
            trajectories, clock = self._take_ahead(ahead), ahead.clock
            metrics["rollout/staleness"] = float(self._trainer.state.global_step - ahead.step)
            metrics["time/waited"] = time.perf_counter() - start_time
        else:
            trajectories, clock = self.play(self._share(specs))
        # `trajectories` keeps the redrawn groups, because metrics and populations count every meta-episode. `trained`
        # drops them.
        trained = trajectories
        for _ in range(self._trainer.args.dynamic_sampling):
            dull = without_variance(trained)
            if not dull:
                break
            specs = redraw_groups(specs, dull, self._trainer.args.seed, index)
            # Every n-th spec, because the number of redrawn groups need not divide among the ranks.
            redrawn, redrawn_clock = self.play(
                specs[self._accelerator.process_index :: self._accelerator.num_processes]
            )
            trajectories, trained = (
                [*trajectories, *redrawn],
                [*redrawn, *(trajectory for trajectory in trained if trajectory.group not in dull)],
            )
            clock.generate += redrawn_clock.generate
            clock.total += redrawn_clock.total
        for meta_episodes in (trajectories, trained):
            # Redrawn groups come last otherwise, and advantages are computed group by group.
            meta_episodes.sort(key=lambda trajectory: (trajectory.group, trajectory.member))
        return PlayedRollout(trajectories, trained, clock, metrics)

    def _share(self, specs: Sequence[RolloutSpec]) -> Sequence[RolloutSpec]:
        """Return this rank's part of the specs."""
        share = len(specs) // self._accelerator.num_processes
        start = self._accelerator.process_index * share
        return specs[start : start + share]

    def play_ahead(self, index: int) -> None:
        """Start to play rollout `index` with the current weights while the model is trained."""
        # The session pushes the weights, and leaves the sampler awake.
        with self._session():
            specs = self._share(self._specs(index))
        # `bool` as `any_rank_live`: a thread must not call collectives while the main thread trains.
        self._ahead = AsyncRollout(
            index, self._trainer.state.global_step, partial(self._collect, self._envs, specs, bool)
        )

    def cancel_ahead(self) -> None:
        """Stop the rollout that is being played ahead, if there is one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()

    def _take_ahead(self, ahead: AsyncRollout) -> list[Trajectory]:
        """Return the meta-episodes that all ranks played ahead."""
        mine: list[Trajectory] = []
        # Preempted is suppressed here and raised in `_gather` instead, on all ranks: a rank that left alone would leave
        # the others waiting in a collective.
        with (
            suppress(Preempted),
            self._log.record_crash("train", self._trainer.state.global_step),
            self._preemption.interrupting(),
        ):
            mine += ahead.result()
        trajectories = self._gather(mine, "train")
        self._ahead = None
        return trajectories

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Enter a generation session, in which the sampler has the model's current weights."""
        if isinstance(self.generator, CopiedGenerator):
            # A copied generator samples from weights of its own, which training does not change.
            self.generator.take_weights(self._accelerator.unwrap_model(self._trainer.model))
        with trl_compat.generation_session(self._trainer):
            yield

    def _specs(self, index: int) -> list[RolloutSpec]:
        """Return the rollout's specs for all ranks. A group may span ranks."""
        args, share = self._trainer.args, self._trainer.args.per_device_train_batch_size
        if args.max_rollouts is not None and index >= args.max_rollouts:
            raise RuntimeError(f"All {args.max_rollouts} rollouts of this run are done; increase max_rollouts.")
        members = cast(int, args.num_generations)
        groups = share * self._accelerator.num_processes // members
        return rollout_specs(
            self._env_id,
            args.seed,
            index,
            groups,
            members,
            self._weights(),
            args.grouping == "stationary",
        )

    def play_without_memory(self, specs: Sequence[RolloutSpec]) -> list[Trajectory]:
        """Play specs of an evaluation, of all ranks, without memory. Return an empty list if the run has no control."""
        if self._control_envs is None:
            return []
        share = specs[self._accelerator.process_index :: self._accelerator.num_processes]
        return self.play(share, "eval", self._control_envs)[0]

    def play(
        self, specs: Sequence[RolloutSpec], phase: str = "train", envs: RolloutEnvs | None = None
    ) -> tuple[list[Trajectory], RolloutClock]:
        """Play this rank's specs; return the trajectories of all ranks. Failures are recorded in the log.

        Args:
            phase: `train` or `eval`.
            envs: Environments to play in (default: those of the phase).

        Raises Preempted on all ranks if some rank received a signal and a resumed run can play the specs again.
        """
        if self._ahead is not None:
            # A session gives the sampler other weights, which a rollout under way must not see.
            self._ahead.wait()
        clock, stops = RolloutClock(), self.interruptible(phase)
        envs = envs or (self._envs if phase == "train" else self._eval_envs)
        together = self._generates_together()
        # A signal may interrupt this rank at any point only if no other rank waits for it in a collective. Otherwise
        # `_any_rank_live` stops all ranks between two calls.
        interrupting = self._preemption.interrupting() if stops and not together else nullcontext()
        live = partial(self._any_rank_live, stops) if together else bool
        watch = partial(self._watch, phase == "train", not together) if stops else None
        trajectories: list[Trajectory] = []
        with (
            suppress(Preempted),
            self._log.record_crash(phase, self._trainer.state.global_step),
            self._session(),
            interrupting,
        ):
            trajectories += self._collect(envs, specs, live, clock, watch)
        # From now on, an error in a first call is a failure of its meta-episode, not a reason to end the run.
        self._begun = True
        return self._gather(trajectories, phase), clock

    def _generates_together(self) -> bool:
        """Return True if every generator call needs all ranks, so that no rank may stop alone."""
        return trl_compat.is_collective(self._trainer) and not isinstance(self.generator, StreamingGenerator)

    def interruptible(self, phase: str) -> bool:
        """Return True if a checkpoint loses no work now.

        That is before the updates on a rollout, and in an evaluation after them.
        """
        return phase == "train" or (
            self.training and self._trainer.state.global_step > 0 and not self._progress.updates_left
        )

    def _collect(
        self,
        envs: RolloutEnvs,
        specs: Sequence[RolloutSpec],
        any_rank_live: Callable[[bool], bool],
        clock: RolloutClock,
        on_step: Callable[[int, int], None] | None,
    ) -> list[Trajectory]:
        # A one-token answer is complete at the limit, so it gets no length penalty.
        limit = cast(int, self._trainer.args.max_completion_length)
        return collect(
            envs.pool(len(specs)),
            self.generator,
            specs,
            reply_limit=0 if limit == 1 else limit,
            env_timeout=self._trainer.args.env_timeout,
            model_timeout=self._trainer.args.model_timeout,
            make_env=envs.make_env,
            begun=self._begun,
            any_rank_live=any_rank_live,
            clock=clock,
            on_step=on_step,
        )

    def _gather(self, trajectories: list[Trajectory], phase: str) -> list[Trajectory]:
        """Return the meta-episodes of all ranks, and record their failures in the log."""
        # All ranks gather the flag, so that all of them raise or none does.
        if self.interruptible(phase) and any(gather_object([self._preemption.asked])):
            raise Preempted
        if any(trajectory.failures for trajectory in trajectories):
            # An environment that raised may be in an inconsistent state.
            (self._envs if phase == "train" else self._eval_envs).renew()
        gathered: list[Trajectory] = mask_non_finite(gather_object(trajectories), self._credit)
        if self._accelerator.is_main_process:
            self._log.record(gathered, phase, self._trainer.state.global_step)
        return gathered

    def _watch(self, shows_progress: bool, may_stop_alone: bool, num_finished: int, total: int) -> None:
        """Show the progress of a rollout, and stop it if a signal arrived and this rank may stop alone."""
        if shows_progress:
            self._run_log.on_rollout_progress(self._progress.rollouts, num_finished, total)
        if may_stop_alone:
            self._preemption.check(num_finished, total)

    def _any_rank_live(self, stops: bool, mine: bool) -> bool:
        # One collective carries both flags.
        flags = torch.tensor(
            [mine, stops and self._preemption.asked], dtype=torch.float, device=self._accelerator.device
        )
        live, stop_requests = self._accelerator.reduce(flags, reduction="sum").tolist()
        if stop_requests:
            raise Preempted
        return bool(live)
