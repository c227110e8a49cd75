"""`MAGETrainer`: TRL's trainer, with rollouts of meta-episodes in place of a data set."""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerCallback

from mage_envs.core import Task
from mage_envs.settings import EpisodeReward
from opponents import FixedPool, League, Population
from trainer.backends.generation import LockStepGenerator
from trainer.config.mage_config import MAGEConfig
from trainer.config.run_settings import FOREVER
from trainer.method.advantages import compute_advantages, variance_metrics
from trainer.method.batch import Update, build_rows, rank_share, split_updates
from trainer.method.metrics import RunStopped, failure_message, rollout_metrics, time_metrics
from trainer.method.trajectory import Trajectory
from trainer.rollout.env_pool import MakeEnv, RolloutEnvs
from trainer.rollout.tasks import SHUFFLE, stream
from trainer.runs.console import console_of
from trainer.runs.failure_log import FailureLog
from trainer.runs.garbage import rare_collections
from trainer.runs.preemption import Preempted, Preemption
from trainer.runs.run_log import RunLog
from trainer.trl import trl_compat
from trainer.trl.backend_registry import BACKENDS, AnyGenerator, fit_prompt_limit, keep_earlier_thinking, prompt_format
from trainer.trl.callbacks import Evaluations, FilesOfRun, RolloutProgress
from trainer.trl.population import LEAGUE, restore_population, update_population
from trainer.trl.setup import (
    contradicted,
    credit_of,
    critic_of,
    env_maker,
    make_population,
    panel_evaluation,
    play_settings,
)
from trainer.trl.skipped_updates import SkippedUpdates
from trainer.trl.updating import UpdatingTrainer


class MAGETrainer(UpdatingTrainer):
    """Trainer of a language model on meta-episodes.

    The config names the environment and the opponents, unless `make_env` makes the environment.

    Args:
        model: Name or folder of a model, or a model.
        args: Settings of the run.
        make_env: Makes one environment with text observations and actions: a `MetaEpisode`, wrapped or not, or any
            other, which is played as one episode.
        opponents: Names with weights, drawn per group, or a `Population` that changes them with the results. None
            leaves the draw to the config, or with `make_env` to the environment.
        env_id: Environment to train in, instead of `args.env_id`.
        reward: Reward of an episode, instead of `args.reward`: a name of the game's settings, `module:function`, or a
            function at the top level of a module. It maps the finished hands and the planned number to a number.
        processing_class: Tokenizer; None loads the model's.
        generator: Makes the rollout backend from this trainer, instead of `args.backend`.
        eval_tasks: Tasks that every evaluation plays once each. `args.eval_panel` replaces them.
        on_rollout_end: Called with the trainer and the trajectories on every rank after each rollout. It may replace
            `population`.
        callbacks: Further callbacks, as in `Trainer`.
        optimizers: Optimiser and scheduler, as in `Trainer`.
        peft_config: Adapter to train, as in `GRPOTrainer`.
        quantization_config: Quantisation of the weights, as in `GRPOTrainer`.
    """

    def __init__(
        self,
        model: str | PreTrainedModel,
        args: MAGEConfig,
        make_env: MakeEnv | None = None,
        opponents: Mapping[str, float] | Population | None = None,
        *,
        env_id: str | None = None,
        reward: str | EpisodeReward | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        generator: Callable[[MAGETrainer], AnyGenerator] | None = None,
        eval_tasks: Sequence[Task] = (),
        on_rollout_end: Callable[[MAGETrainer, Sequence[Trajectory]], None] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        peft_config: Any = None,
        quantization_config: Any = None,
    ) -> None:
        # An environment or an opponent in this process may change the current folder.
        # Before the path is made absolute: opponents are named by the folder as the user gave it, so that it can be
        # moved.
        self._league = Path(args.output_dir or ".") / LEAGUE
        args.output_dir = os.path.abspath(args.output_dir or ".")
        trl_compat.check_trl()
        # First, so that these errors appear before anything is made or loaded.
        trl_compat.check_reference(model, args.beta, adapted=peft_config is not None)
        if make_env is not None and (env_id is not None or reward is not None):
            raise ValueError("make_env makes the whole environment; pass it alone, or env_id and reward without it.")
        args.set_environment(env_id, reward)
        by_args = make_env is None
        if make_env is None:
            make_env = env_maker(args)
            opponents = make_population(args) if opponents is None else opponents
        if args.grouping == "non_stationary" and opponents is None:
            raise ValueError('grouping="non_stationary" requires a pool; pass opponents with weights.')
        self.population = FixedPool(opponents) if isinstance(opponents, Mapping) else opponents
        self._on_rollout_end = on_rollout_end
        self._envs = RolloutEnvs(make_env, args.env_workers, args.env_memory_gb)
        self.evaluation = panel_evaluation(self._envs.in_process[0], args)
        self.eval_tasks = tuple(self.evaluation.tasks if self.evaluation else eval_tasks)
        self._eval_envs = self._envs
        if self.evaluation is not None:
            made = partial(gym.make, self.evaluation.env_id, disable_env_checker=True, **self.evaluation.options)
            self._eval_envs = RolloutEnvs(made, args.env_workers, args.env_memory_gb)
        self._begun = False
        """True if this process has played before."""
        self.ledger = FailureLog(args.output_dir)
        self._updates: deque[Update] = deque()
        self.credit = credit_of(self._envs.in_process[0], args)
        self.critic = critic_of(self._envs.in_process[0], args, self.population.weights() if self.population else ())
        self.play = play_settings(self._envs.in_process[0], args)
        if not by_args and (named := contradicted(self._envs.in_process[0], args)) is not None:
            raise ValueError(
                f"MAGEConfig.{named} does not match the environment from make_env; remove it from the config."
            )
        if self.play is None and isinstance(self.population, League):
            raise ValueError("A league saves models with their play settings; make_env must use gym.make.")
        super().__init__(
            model,
            trl_compat.no_reward,
            args,
            train_dataset=trl_compat.placeholder_dataset(),
            eval_dataset=trl_compat.placeholder_dataset(len(self.eval_tasks)) if self.eval_tasks else None,
            processing_class=processing_class,
            callbacks=callbacks,
            optimizers=optimizers,
            peft_config=peft_config,
            quantization_config=quantization_config,
        )
        trl_compat.check_model(self.accelerator.unwrap_model(self.model))
        trl_compat.check_precision(self)
        trl_compat.check_whole_model(self)
        fit_prompt_limit(self)
        self.preemption = Preemption()
        self.skipped = SkippedUpdates(self.args.max_skipped_updates)
        console = console_of(args) if self.accelerator.is_main_process else None
        self.run_log = RunLog(args.output_dir, console, args.log_transcripts)
        progress = RolloutProgress()
        files = FilesOfRun(self.ledger, self.run_log, progress)
        for added in (progress, self.preemption, self.skipped, files):
            self.add_callback(added)
        if self.evaluation is not None:
            self.add_callback(Evaluations(self.progress, args.eval_every, args.max_rollouts))
        # The run log and the console replace them.
        for other in (ProgressCallback, PrinterCallback):
            self.pop_callback(other)
        if self.play is not None:
            if self.play.env_kwargs.get("context") == "conversation":
                keep_earlier_thinking(self)
            # After `keep_earlier_thinking`, which changes the chat template.
            self.play = replace(self.play, prompt_format=prompt_format(self))
        # Last, because backends read the trainer's model, tokenizer and prompt format.
        self.generator = (generator or BACKENDS[args.backend])(self)
        if args.constrained and isinstance(self.generator, LockStepGenerator):
            raise ValueError(
                'constrained=True samples among the legal words, which TRL does not; use backend="cached".'
            )

    # -- what the Trainer's loop calls ----------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as `Trainer.train` does. A rollout that an earlier call left unfinished is dropped.

        With True it resumes from the newest sound checkpoint. If the run was complete at its checkpoint, no update
        follows.
        """
        self._updates.clear()
        self._start = start = self.checkpoint_to_resume(resume_from_checkpoint)
        self._training = True
        try:
            with rare_collections(), self.length_known(start):
                return super().train(start, *args, **kwargs)
        except Preempted:
            # The resumed run plays this rollout again, so its checkpoint needs the random states from before the
            # rollout.
            self.preemption.rewind()
            self.preemption.stopped, self.progress.evaluation_due = True, self._evaluating
            return self.end_here()
        finally:
            self._training = self._evaluating = False
            self.give_up_ahead()
            self._envs.close()
            self._eval_envs.close()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader with one item per optimiser step. The rows come from rollouts."""
        return DataLoader(cast("Dataset[Any]", range(self.args.max_steps)), batch_size=1, collate_fn=list)

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Accumulate the gradient of the next mini-batch; play a rollout first if no mini-batch is left."""
        model.train()
        # For optimisers with a training mode (schedule-free ones). The Trainer's own `training_step` does this, too.
        cast(Any, self.optimizer).train()
        if not self._updates:
            self._start_rollout(model)
        update = self._updates.popleft()
        self.progress.updates_left = len(self._updates)
        return self._backward(model, update)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, without the rate of data-loader items.

        Under `updates_per_rollout="auto"` the epoch is the share of rollouts.
        """
        logs.pop("train_samples_per_second", None)
        if self.args.max_rollouts is not None and self.args.max_steps >= FOREVER:
            self.state.epoch = self.progress.rollouts / self.args.max_rollouts
        super().log(logs, start_time)

    # -- rollout --------------------------------------------------------------------------------------------

    def _start_rollout(self, model: torch.nn.Module) -> None:
        """Play the next rollout and queue its mini-batches."""
        self.make_up_evaluation()
        # Fewest objects are alive now, so this costs least; see `rare_collections`.
        gc.collect(1)
        index = self.progress.rollouts
        # Before the first update `on_epoch_begin` has marked the states.
        if self.state.global_step:
            self.preemption.mark()
        self.run_log.on_rollout_begin(index, self.state.global_step)
        # After a resume the population is new, and its state is that of the checkpoint.
        restore_population(self.population, self.progress.population)
        trajectories, trained, clock, found = self._play_rollout(index)
        message = failure_message(trajectories, index, self.args.failure_threshold)
        if message is not None:
            raise RunStopped(f"{message}; tracebacks: {self.ledger.path}")
        advantages, metrics = compute_advantages(trained, self.credit, self.critic)
        rows = build_rows(trained, advantages, merge=self.args.merge_prefixes, mask_truncated=self.args.mask_truncated)
        if not rows:
            raise ValueError(f"Rollout {index} has no reply to train on; check max_prompt_length and mask_truncated.")
        # Keyed by the rollout, so that all ranks and a resumed run shuffle alike.
        rng = stream(self.args.seed, SHUFFLE, index)
        batches = split_updates(rows, self.args.updates_of(sum(row.steps for row in rows)), rng)
        rank, ranks = self.accelerator.process_index, self.accelerator.num_processes
        limit = self.args.max_tokens_per_microbatch
        self._updates = deque(rank_share(batch, rank, ranks, limit, self._pad_id, self._forwards) for batch in batches)
        self._plan_length(index, len(batches))
        started = time.perf_counter()
        metrics |= found | self._score_rows(model)
        metrics |= variance_metrics(trajectories, trained) | rollout_metrics(trajectories)
        metrics |= {
            "failures/total": float(self.ledger.count),
            "rollout": float(index),
            "updates_per_rollout": float(len(batches)),
            "rows": float(len(rows)),
            "time/score": time.perf_counter() - started,
        }
        metrics |= time_metrics(trajectories, clock.generate, clock.total)
        self.progress.rollouts = index + 1
        if self.args.exploitability_every and (index + 1) % self.args.exploitability_every == 0:
            metrics |= self._exploitability(index)
        trl_compat.record(self, "train", metrics)
        if self.accelerator.is_main_process:
            self.run_log.on_rollout_end(index, self.state.global_step, trained, advantages, metrics)
        self.progress.population = update_population(
            self.population,
            trajectories,
            self.state.global_step,
            Path(str(self.args.output_dir)) / LEAGUE,
            self._league,
            self.write_model,
        )
        if self._on_rollout_end is not None:
            self._on_rollout_end(self, trajectories)
        # Last, because the next rollout must meet the updated population.
        last = self.args.max_rollouts is not None and index + 1 >= self.args.max_rollouts
        if self.args.rollout_ahead and not last and self.state.global_step + len(batches) < self.state.max_steps:
            self.play_ahead(index + 1)

    def _plan_length(self, index: int, updates: int) -> None:
        """Update the number of steps in the Trainer's loop, as far as it is known."""
        if self.args.max_rollouts is not None:
            left = (self.args.max_rollouts - index) * updates
            self.state.max_steps = min(self.args.max_steps, self.state.global_step + left)
