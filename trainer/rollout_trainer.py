"""A trainer's part in a rollout: what its rank plays, until it is told to stop, and what all ranks then know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import NamedTuple, cast

import torch
from accelerate.utils import gather_object

from trainer import trl_compat
from trainer.advantages import CreditConfig, screened, without_variance
from trainer.ahead import PlayedAhead
from trainer.backends import AnyGenerator
from trainer.cached import CopiedGenerator
from trainer.callbacks import RolloutProgress
from trainer.exploitability import exploitability
from trainer.generation import StreamingGenerator
from trainer.ledger import Ledger
from trainer.persistence import PersistentTrainer
from trainer.preemption import Preempted, Preemption
from trainer.rollout import RolloutClock, RolloutSpec, collect
from trainer.run_log import RunLog
from trainer.specs import redrawn, rollout_specs
from trainer.stages import RunEnvs
from trainer.trajectory import Trajectory


class PlayedRollout(NamedTuple):
    """The meta-episodes of all ranks, group by group."""

    everything: list[Trajectory]
    trained: list[Trajectory]
    """Those that are trained on."""
    clock: RolloutClock
    metrics: dict[str, float]
    """Of one that was played ahead."""


class RolloutTrainer(PersistentTrainer):
    """Plays rollouts with the model that is trained."""

    generator: AnyGenerator
    ledger: Ledger
    preemption: Preemption
    credit: CreditConfig
    run_log: RunLog
    _envs: RunEnvs
    _eval_envs: RunEnvs
    """Of the panel that is played in training; else the same."""
    _begun: bool
    _ahead: PlayedAhead | None = None
    _training = False
    """Whether `train` runs."""
    _start: str | None = None
    """The checkpoint that it went on from."""

    @property
    def progress(self) -> RolloutProgress:
        """The rollout count, which checkpoints carry."""
        return next(c for c in self.callback_handler.callbacks if isinstance(c, RolloutProgress))

    def _exploitability(self, index: int) -> dict[str, float]:
        """The model's NashConv as it is now, in the game that it trains on."""
        env = self._envs.here[0]
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
        """Plays a rollout, unless it was played ahead.

        Groups without variance are dropped and redrawn up to `dynamic_sampling` times; the last draw stays.
        """
        specs, metrics = self._specs(index), dict[str, float]()
        if self._ahead is not None and self._ahead.index == index:
            ahead, started = self._ahead, time.perf_counter()
            played, clock = self._take_ahead(ahead), ahead.clock
            metrics["rollout/staleness"] = float(self.state.global_step - ahead.step)
            metrics["time/waited"] = time.perf_counter() - started
        else:
            played, clock = self._play(self._share(specs))
        trained = played
        for _ in range(self.args.dynamic_sampling):
            dull = without_variance(trained)
            if not dull:
                break
            specs = redrawn(specs, dull, self.args.seed, index)
            again, more = self._play(specs[self.accelerator.process_index :: self.accelerator.num_processes])
            played, trained = [*played, *again], [*again, *(one for one in trained if one.group not in dull)]
            clock.generate += more.generate
            clock.total += more.total
        for some in (played, trained):
            some.sort(key=lambda trajectory: (trajectory.group, trajectory.member))
        return PlayedRollout(played, trained, clock, metrics)

    def _share(self, specs: Sequence[RolloutSpec]) -> Sequence[RolloutSpec]:
        """What this rank plays."""
        share = len(specs) // self.accelerator.num_processes
        first = self.accelerator.process_index * share
        return specs[first : first + share]

    def play_ahead(self, index: int) -> None:
        """Begins to play a rollout with the weights as they are now, while the model is trained."""
        with self._session():  # pushes the weights, and leaves the sampler awake
            specs = self._share(self._specs(index))
        self._ahead = PlayedAhead(index, self.state.global_step, partial(self._collect, self._envs, specs, bool))

    def give_up_ahead(self) -> None:
        """Ends what is played ahead, if anything is."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.give_up()

    def _take_ahead(self, ahead: PlayedAhead) -> list[Trajectory]:
        """What was played ahead, by all ranks."""
        mine: list[Trajectory] = []
        with suppress(Preempted), self.ledger.kept("train", self.state.global_step), self.preemption.interrupting():
            mine += ahead.result()
        played = self._gather(mine, "train")
        self._ahead = None
        return played

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Around generation, whose sampler has the weights of the model from here on."""
        if isinstance(self.generator, CopiedGenerator):
            self.generator.take_weights(self.accelerator.unwrap_model(self.model))
        with trl_compat.generation_session(self):
            yield

    def _specs(self, index: int) -> list[RolloutSpec]:
        """The rollout's meta-episodes, of all ranks; a group may span ranks."""
        args, share = self.args, self.args.per_device_train_batch_size
        if args.max_rollouts is not None and index >= args.max_rollouts:
            raise RuntimeError(f"All {args.max_rollouts} rollouts of this run are done; raise max_rollouts to go on.")
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
        """Plays this rank's specs; returns all ranks' trajectories, their failures being in the ledger.

        What can be played again by a run that goes on is given up, on all ranks, where one was asked to stop meanwhile:
        Preempted.
        """
        if self._ahead is not None:
            self._ahead.wait()  # the sampler is about to get other weights
        clock, stops = RolloutClock(), self._interruptible(phase)
        envs = self._envs if phase == "train" else self._eval_envs
        together = self._generates_together()
        interrupting = self.preemption.interrupting() if stops and not together else nullcontext()
        live = partial(self._any_rank_live, stops) if together else bool
        watch = partial(self._watch, phase == "train", not together) if stops else None
        played: list[Trajectory] = []
        with suppress(Preempted), self.ledger.kept(phase, self.state.global_step), self._session(), interrupting:
            played += self._collect(envs, specs, live, clock, watch)
        self._begun = True
        return self._gather(played, phase), clock

    def _generates_together(self) -> bool:
        """Whether all ranks take part in each call of the generator, so that none may give up alone."""
        return trl_compat.is_collective(self) and not isinstance(self.generator, StreamingGenerator)

    def _interruptible(self, phase: str) -> bool:
        """Whether a checkpoint now loses nothing: before the updates on a rollout, and in an evaluation after them."""
        return phase == "train" or (self._training and self.state.global_step > 0 and not self.progress.updates_left)

    def _collect(
        self,
        envs: RunEnvs,
        specs: Sequence[RolloutSpec],
        any_rank_live: Callable[[bool], bool],
        clock: RolloutClock,
        on_step: Callable[[int, int], None] | None,
    ) -> list[Trajectory]:
        limit = cast(int, self.args.max_completion_length)  # a one-token answer is whole, not cut: no length penalty
        return collect(
            envs.stage(len(specs)),
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
        """What all ranks played, the failures being in the ledger."""
        if self._interruptible(phase) and any(gather_object([self.preemption.asked])):
            raise Preempted
        if any(trajectory.failures for trajectory in played):
            (self._envs if phase == "train" else self._eval_envs).renew()
        gathered: list[Trajectory] = screened(gather_object(played), self.credit)
        if self.accelerator.is_main_process:
            self.ledger.record(gathered, phase, self.state.global_step)
        return gathered

    def _watch(self, shown: bool, alone: bool, done: int, total: int) -> None:
        """Shows how far a rollout is; gives it up where this rank may do so alone, and was asked to stop."""
        if shown:
            self.run_log.plays(self.progress.rollouts, done, total)
        if alone:
            self.preemption.check(done, total)

    def _any_rank_live(self, stops: bool, mine: bool) -> bool:
        told = torch.tensor([mine, stops and self.preemption.asked], dtype=torch.float, device=self.accelerator.device)
        live, asked = self.accelerator.reduce(told, reduction="sum").tolist()
        if asked:
            raise Preempted
        return bool(live)
