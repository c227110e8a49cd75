"""`RolloutTrainer`: the rollout of one rank, its interruption, and the exchange of results between ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import NamedTuple, cast

import torch
from accelerate.utils import gather_object

from trainer.backends.cached import CopiedGenerator
from trainer.backends.generation import StreamingGenerator
from trainer.method.advantages import CreditConfig, mask_non_finite, without_variance
from trainer.method.trajectory import Trajectory
from trainer.rollout.async_rollout import AsyncRollout
from trainer.rollout.env_pool import RolloutEnvs
from trainer.rollout.exploitability import exploitability
from trainer.rollout.rollout import RolloutClock, RolloutSpec, collect
from trainer.rollout.tasks import redrawn, rollout_specs
from trainer.runs.failure_log import FailureLog
from trainer.runs.preemption import Preempted, Preemption
from trainer.runs.run_log import RunLog
from trainer.trl import trl_compat
from trainer.trl.backend_registry import AnyGenerator
from trainer.trl.callbacks import RolloutProgress
from trainer.trl.checkpoints import CheckpointingTrainer


class PlayedRollout(NamedTuple):
    """Meta-episodes of all ranks, sorted by group and member."""

    everything: list[Trajectory]
    trained: list[Trajectory]
    """The meta-episodes to train on."""
    clock: RolloutClock
    metrics: dict[str, float]
    """Metrics of a rollout that was played ahead."""


class RolloutTrainer(CheckpointingTrainer):
    """Trainer that plays rollouts with the model under training."""

    generator: AnyGenerator
    ledger: FailureLog
    preemption: Preemption
    credit: CreditConfig
    run_log: RunLog
    _envs: RolloutEnvs
    _eval_envs: RolloutEnvs
    """Environments of the evaluation panel; the training environments if the run has no panel."""
    _begun: bool
    _ahead: AsyncRollout | None = None
    _training = False
    """True while `train` runs."""
    _start: str | None = None
    """The checkpoint that `train` resumed from, or None."""

    @property
    def progress(self) -> RolloutProgress:
        """The count of rollouts, which checkpoints store."""
        return next(c for c in self.callback_handler.callbacks if isinstance(c, RolloutProgress))

    def _exploitability(self, index: int) -> dict[str, float]:
        """Return the NashConv of the current model in its training game."""
        env = self._envs.in_process[0]
        with self._session():
            found = exploitability(
                self.generator,
                env.get_wrapper_attr("game"),
                env.get_wrapper_attr("style"),
                samples=self.args.exploitability_samples,
                num_episodes=env.get_wrapper_attr("num_episodes"),
                seed=self.args.seed + index,
                resamples=50,
                deadline=0.0 if self._generates_together() else self.args.model_timeout,
            )
        return found.metrics()

    def _play_rollout(self, index: int) -> PlayedRollout:
        """Play a rollout, unless it was played ahead.

        Groups without variance are redrawn up to `dynamic_sampling` times. The last draw is kept in any case.
        """
        specs, metrics = self._specs(index), dict[str, float]()
        if self._ahead is not None and self._ahead.index == index:
            ahead, started = self._ahead, time.perf_counter()
            played, clock = self._take_ahead(ahead), ahead.clock
            metrics["rollout/staleness"] = float(self.state.global_step - ahead.step)
            metrics["time/waited"] = time.perf_counter() - started
        else:
            played, clock = self._play(self._share(specs))
        # `played` keeps the redrawn groups, because metrics and populations count every meta-episode. `trained` drops
        # them.
        trained = played
        for _ in range(self.args.dynamic_sampling):
            dull = without_variance(trained)
            if not dull:
                break
            specs = redrawn(specs, dull, self.args.seed, index)
            # Every n-th spec, because the number of redrawn groups need not divide among the ranks.
            again, more = self._play(specs[self.accelerator.process_index :: self.accelerator.num_processes])
            played, trained = [*played, *again], [*again, *(one for one in trained if one.group not in dull)]
            clock.generate += more.generate
            clock.total += more.total
        for some in (played, trained):
            # Redrawn groups come last otherwise, and advantages are computed group by group.
            some.sort(key=lambda trajectory: (trajectory.group, trajectory.member))
        return PlayedRollout(played, trained, clock, metrics)

    def _share(self, specs: Sequence[RolloutSpec]) -> Sequence[RolloutSpec]:
        """Return this rank's part of the specs."""
        share = len(specs) // self.accelerator.num_processes
        first = self.accelerator.process_index * share
        return specs[first : first + share]

    def play_ahead(self, index: int) -> None:
        """Start to play rollout `index` with the current weights while the model is trained."""
        # The session pushes the weights, and leaves the sampler awake.
        with self._session():
            specs = self._share(self._specs(index))
        # `bool` as `any_rank_live`: a thread must not call collectives while the main thread trains.
        self._ahead = AsyncRollout(index, self.state.global_step, partial(self._collect, self._envs, specs, bool))

    def give_up_ahead(self) -> None:
        """Stop the rollout that is being played ahead, if there is one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()

    def _take_ahead(self, ahead: AsyncRollout) -> list[Trajectory]:
        """Return the meta-episodes that all ranks played ahead."""
        mine: list[Trajectory] = []
        # Preempted is suppressed here and raised in `_gather` instead, on all ranks: a rank that left alone would leave
        # the others waiting in a collective.
        with suppress(Preempted), self.ledger.kept("train", self.state.global_step), self.preemption.interrupting():
            mine += ahead.result()
        played = self._gather(mine, "train")
        self._ahead = None
        return played

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Enter a generation session, in which the sampler has the model's current weights."""
        if isinstance(self.generator, CopiedGenerator):
            # A copied generator samples from weights of its own, which training does not change.
            self.generator.take_weights(self.accelerator.unwrap_model(self.model))
        with trl_compat.generation_session(self):
            yield

    def _specs(self, index: int) -> list[RolloutSpec]:
        """Return the rollout's specs for all ranks. A group may span ranks."""
        args, share = self.args, self.args.per_device_train_batch_size
        if args.max_rollouts is not None and index >= args.max_rollouts:
            raise RuntimeError(f"All {args.max_rollouts} rollouts of this run are done; increase max_rollouts.")
        members = cast(int, args.num_generations)
        groups = share * self.accelerator.num_processes // members
        return rollout_specs(
            self.play.env_id if self.play else "",
            args.seed,
            index,
            groups,
            members,
            None if self.population is None else self.population.weights(),
            args.grouping == "stationary",
        )

    def _play(self, specs: Sequence[RolloutSpec], phase: str = "train") -> tuple[list[Trajectory], RolloutClock]:
        """Play this rank's specs; return the trajectories of all ranks. Failures are recorded in the ledger.

        Raises Preempted on all ranks if some rank received a signal and a resumed run can play the specs again.
        """
        if self._ahead is not None:
            # A session gives the sampler other weights, which a rollout under way must not see.
            self._ahead.wait()
        clock, stops = RolloutClock(), self._interruptible(phase)
        envs = self._envs if phase == "train" else self._eval_envs
        together = self._generates_together()
        # A signal may interrupt this rank at any point only if no other rank waits for it in a collective. Otherwise
        # `_any_rank_live` stops all ranks between two calls.
        interrupting = self.preemption.interrupting() if stops and not together else nullcontext()
        live = partial(self._any_rank_live, stops) if together else bool
        watch = partial(self._watch, phase == "train", not together) if stops else None
        played: list[Trajectory] = []
        with suppress(Preempted), self.ledger.kept(phase, self.state.global_step), self._session(), interrupting:
            played += self._collect(envs, specs, live, clock, watch)
        # From now on, an error in a first call is a failure of its meta-episode, not a reason to end the run.
        self._begun = True
        return self._gather(played, phase), clock

    def _generates_together(self) -> bool:
        """Return True if every generator call needs all ranks, so that no rank may stop alone."""
        return trl_compat.is_collective(self) and not isinstance(self.generator, StreamingGenerator)

    def _interruptible(self, phase: str) -> bool:
        """Return True if a checkpoint loses no work now.

        That is before the updates on a rollout, and in an evaluation after them.
        """
        return phase == "train" or (self._training and self.state.global_step > 0 and not self.progress.updates_left)

    def _collect(
        self,
        envs: RolloutEnvs,
        specs: Sequence[RolloutSpec],
        any_rank_live: Callable[[bool], bool],
        clock: RolloutClock,
        on_step: Callable[[int, int], None] | None,
    ) -> list[Trajectory]:
        # A one-token answer is complete at the limit, so it gets no length penalty.
        limit = cast(int, self.args.max_completion_length)
        return collect(
            envs.pool(len(specs)),
            self.generator,
            specs,
            reply_limit=0 if limit == 1 else limit,
            env_timeout=self.args.env_timeout,
            model_timeout=self.args.model_timeout,
            make_env=envs.make_env,
            begun=self._begun,
            any_rank_live=any_rank_live,
            clock=clock,
            on_step=on_step,
        )

    def _gather(self, played: list[Trajectory], phase: str) -> list[Trajectory]:
        """Return the meta-episodes of all ranks, and record their failures in the ledger."""
        # All ranks gather the flag, so that all of them raise or none does.
        if self._interruptible(phase) and any(gather_object([self.preemption.asked])):
            raise Preempted
        if any(trajectory.failures for trajectory in played):
            # An environment that raised may be in an inconsistent state.
            (self._envs if phase == "train" else self._eval_envs).renew()
        gathered: list[Trajectory] = mask_non_finite(gather_object(played), self.credit)
        if self.accelerator.is_main_process:
            self.ledger.record(gathered, phase, self.state.global_step)
        return gathered

    def _watch(self, shown: bool, alone: bool, done: int, total: int) -> None:
        """Show the progress of a rollout, and stop it if a signal arrived and this rank may stop alone."""
        if shown:
            self.run_log.on_rollout_progress(self.progress.rollouts, done, total)
        if alone:
            self.preemption.check(done, total)

    def _any_rank_live(self, stops: bool, mine: bool) -> bool:
        # One collective carries both flags.
        told = torch.tensor([mine, stops and self.preemption.asked], dtype=torch.float, device=self.accelerator.device)
        live, asked = self.accelerator.reduce(told, reduction="sum").tolist()
        if asked:
            raise Preempted
        return bool(live)
