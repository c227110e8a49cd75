"""A trainer's part in a rollout: what its rank plays, until it is told to stop, and what all ranks then know."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import cast

import torch
from accelerate.utils import gather_object

from opponents import Population
from trainer import trl_compat
from trainer.advantages import CreditConfig, screened
from trainer.backends import AnyGenerator
from trainer.callbacks import RolloutProgress
from trainer.exploitability import exploitability
from trainer.generation import StreamingGenerator
from trainer.ledger import Ledger
from trainer.persistence import PersistentTrainer
from trainer.preemption import Preempted, Preemption
from trainer.rollout import RolloutClock, RolloutSpec, collect
from trainer.run_log import RunLog
from trainer.saved import PlaySettings
from trainer.specs import rollout_specs
from trainer.stages import RunEnvs
from trainer.trajectory import Trajectory


class RolloutTrainer(PersistentTrainer):
    """Plays rollouts with the model that is trained."""

    generator: AnyGenerator
    population: Population | None
    ledger: Ledger
    preemption: Preemption
    credit: CreditConfig
    play: PlaySettings | None
    run_log: RunLog
    _envs: RunEnvs
    _eval_envs: RunEnvs
    """Of the panel that is played in training; else the same."""
    _begun: bool

    @property
    def progress(self) -> RolloutProgress:
        """The rollout count, which checkpoints carry."""
        return next(c for c in self.callback_handler.callbacks if isinstance(c, RolloutProgress))

    def _exploitability(self, index: int) -> dict[str, float]:
        """The model's NashConv as it is now, in the game that it trains on."""
        env = self._envs.here[0]
        with trl_compat.generation_session(self):
            found = exploitability(
                self.generator,
                env.get_wrapper_attr("game"),
                env.get_wrapper_attr("style"),
                samples=self.args.exploitability_samples,
                num_episodes=env.get_wrapper_attr("num_episodes"),
                seed=self.args.seed + index,
                resamples=50,
            )
        return found.metrics()

    def _my_specs(self, index: int) -> list[RolloutSpec]:
        """This rank's share of the rollout's meta-episodes; a group may span ranks."""
        args, share = self.args, self.args.per_device_train_batch_size
        if args.max_rollouts is not None and index >= args.max_rollouts:
            raise RuntimeError(f"All {args.max_rollouts} rollouts of this run are done; raise max_rollouts to go on.")
        members = cast(int, args.num_generations)
        groups = share * self.accelerator.num_processes // members
        specs = rollout_specs(
            self.play.env_id if self.play else "",
            args.seed,
            index,
            groups,
            members,
            None if self.population is None else self.population.weights(),
            args.grouping == "stationary",
        )
        first = self.accelerator.process_index * share
        return specs[first : first + share]

    def _play(self, specs: Sequence[RolloutSpec], phase: str = "train") -> tuple[list[Trajectory], RolloutClock]:
        """Plays this rank's specs; returns all ranks' trajectories, their failures being in the ledger.

        A rollout to train on is given up, on all ranks, where one was asked to stop meanwhile: Preempted.
        """
        clock, stops = RolloutClock(), phase == "train"
        envs = self._envs if stops else self._eval_envs
        together = trl_compat.is_collective(self) and not isinstance(self.generator, StreamingGenerator)
        interrupting = self.preemption.interrupting() if stops and not together else nullcontext()
        played: list[Trajectory] = []
        limit = cast(int, self.args.max_completion_length)  # a one-token answer is whole, not cut: no length penalty
        with (
            suppress(Preempted),
            self.ledger.kept(phase, self.state.global_step),
            trl_compat.generation_session(self),
            interrupting,
        ):
            played += collect(
                envs.stage(len(specs)),
                self.generator,
                specs,
                reply_limit=0 if limit == 1 else limit,
                env_timeout=self.args.env_timeout,
                model_timeout=self.args.model_timeout,
                make_env=envs.make_env,
                begun=self._begun,
                any_rank_live=partial(self._any_rank_live, stops) if together else bool,
                clock=clock,
                on_step=partial(self._watch, not together) if stops else None,
            )
        if stops and any(gather_object([self.preemption.asked])):
            raise Preempted
        self._begun = True
        if any(trajectory.failures for trajectory in played):
            envs.renew()
        gathered = screened(gather_object(played), self.credit)
        if self.accelerator.is_main_process:
            self.ledger.record(gathered, phase, self.state.global_step)
        return gathered, clock

    def _watch(self, alone: bool, done: int, total: int) -> None:
        """Shows how far a rollout is; gives it up where this rank may do so alone, and was asked to stop."""
        self.run_log.plays(self.progress.rollouts, done, total)
        if alone:
            self.preemption.check(done, total)

    def _any_rank_live(self, stops: bool, mine: bool) -> bool:
        told = torch.tensor([mine, stops and self.preemption.asked], dtype=torch.float, device=self.accelerator.device)
        live, asked = self.accelerator.reduce(told, reduction="sum").tolist()
        if asked:
            raise Preempted
        return bool(live)
