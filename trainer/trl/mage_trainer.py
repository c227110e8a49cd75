"""`MAGETrainer`: TRL's trainer, with rollouts of meta-episodes in place of a data set."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerCallback

from mage_envs.core import Task
from mage_envs.opponents import FixedPool, League, Population
from mage_envs.settings import EpisodeReward
from mage_envs.trainer.backends.generation import LockStepGenerator
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.rows import disable_functional_dropout
from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.config.run_settings import FOREVER
from mage_envs.trainer.method.advantages import compute_advantages, variance_metrics
from mage_envs.trainer.method.batch import build_rows, split_updates
from mage_envs.trainer.method.metrics import failure_message, rollout_metrics, time_metrics
from mage_envs.trainer.method.tasks import SHUFFLE, stream
from mage_envs.trainer.runs.console import console_of
from mage_envs.trainer.runs.garbage import rare_collections
from mage_envs.trainer.runs.preemption import Preempted, Preemption
from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.backend_registry import (
    BACKENDS,
    AnyGenerator,
    chat_tokenizer,
    fit_prompt_limit,
    keep_earlier_thinking,
    prompt_format,
)
from mage_envs.trainer.trl.callbacks import Evaluations, FilesOfRun, RolloutProgress, SkippedUpdates
from mage_envs.trainer.trl.checkpoints import Checkpoints
from mage_envs.trainer.trl.evaluation import EndedByEvaluation, Evaluator
from mage_envs.trainer.trl.population import LEAGUE, restore_population, update_population
from mage_envs.trainer.trl.rollout_player import RolloutPlayer
from mage_envs.trainer.trl.setup import (
    credit_of,
    critic_of,
    env_maker,
    find_contradiction,
    make_control_envs,
    make_population,
    measure_of,
    panel_evaluation,
    play_settings,
)
from mage_envs.trainer.trl.trainer_hooks import TrainerHooks
from mage_envs.trainer.trl.updating import PolicyUpdates
from mage_envs.wrappers.rollout.env_pool import MakeEnv, RolloutEnvs
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.generation_client import RunStopped
from mage_envs.wrappers.rollout.trajectory import Trajectory


class MAGETrainer(TrainerHooks):
    """Trainer of a language model on meta-episodes.

    The config names the environment and the opponents, unless `make_env` makes the environment.

    Args:
        model: Name or folder of a model, or a model.
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

    play: PlaySettings | None
    """How to prompt the model after the training, or None if `gym.make` did not make the environment."""

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
        self._on_rollout_end = on_rollout_end
        envs = self._prepare_play(args, make_env, opponents)
        panel = panel_evaluation(envs.in_process[0], args)
        tasks = tuple(panel.tasks if panel else eval_tasks)
        if panel is not None:
            make_eval_env = partial(gym.make, panel.env_id, disable_env_checker=True, **panel.options)
            eval_envs = RolloutEnvs(make_eval_env, args.env_workers, args.env_memory_gb)
            control_envs = make_control_envs(panel, args)
        super().__init__(
            model,
            trl_compat.no_reward,
            args,
            train_dataset=trl_compat.placeholder_dataset(),
            eval_dataset=trl_compat.placeholder_dataset(len(tasks)) if tasks else None,
            processing_class=processing_class,
            callbacks=callbacks,
            optimizers=optimizers,
            peft_config=peft_config,
            quantization_config=quantization_config,
        )
        disable_functional_dropout(self.accelerator.unwrap_model(self.model))
        self._check_base()
        fit_prompt_limit(self)
        self.preemption = Preemption()
        self.skipped = SkippedUpdates(self.args.max_skipped_updates)
        measure = measure_of(envs.in_process[0])
        console = console_of(args, measure) if self.accelerator.is_main_process else None
        self.run_log = RunLog(args.output_dir, console, args.log_transcripts, measure)
        self.progress = RolloutProgress()
        self._exchange_callbacks(evaluates=panel is not None)
        if self.play is not None:
            if self.play.env_kwargs.get("context") == "conversation":
                keep_earlier_thinking(self)
            # After `keep_earlier_thinking`, which changes the chat template.
            tokens = chat_tokenizer(self)
            self.play = replace(self.play, prompt_format=prompt_format(self), reply_format=tokens.reply_format)
        run: dict[str, Any] = {"run_log": self.run_log, "progress": self.progress, "preemption": self.preemption}
        self.player = RolloutPlayer(
            self,
            # After all of the above, because backends read the trainer's model, tokenizer and prompt format.
            generator=self._make_backend(generator),
            envs=envs,
            eval_envs=envs if panel is None else eval_envs,
            control_envs=None if panel is None else control_envs,
            env_id=self.play.env_id if self.play else "",
            # A function, because `on_rollout_end` may replace the population.
            weights=lambda: None if self.population is None else self.population.weights(),
            credit=self.credit,
            log=self.failure_log,
            **run,
        )
        self.checkpoints = Checkpoints(self, self.play, self._opponents)
        self.updates = PolicyUpdates(self, skipped=self.skipped, **run)
        self.evaluator = Evaluator(self, self.player, tasks=tasks, panel=panel, play=self.play, **run)
        self._start: str | None = None
        """The checkpoint that `train` resumed from, or None."""

    def _prepare_play(
        self, args: MAGEConfig, make_env: MakeEnv | None, opponents: Mapping[str, float] | Population | None
    ) -> RolloutEnvs:
        """Return the environments, and set what follows from them: population, credit, critic and play settings.

        Raises:
            ValueError: If the config, the environment and the opponents do not fit.
        """
        by_args = make_env is None
        if make_env is None:
            make_env = env_maker(args)
            opponents = make_population(args) if opponents is None else opponents
        if args.grouping == "non_stationary" and opponents is None:
            raise ValueError('grouping="non_stationary" requires a pool; pass opponents with weights.')
        self.population = FixedPool(opponents) if isinstance(opponents, Mapping) else opponents
        envs = RolloutEnvs(make_env, args.env_workers, args.env_memory_gb)
        env = envs.in_process[0]
        self.failure_log = FailureLog(str(args.output_dir))
        self.credit = credit_of(env, args)
        self.critic = critic_of(env, args, self._opponents())
        self.play = play_settings(env, args)
        if not by_args and (field := find_contradiction(env, args)) is not None:
            raise ValueError(
                f"MAGEConfig.{field} does not match the environment from make_env; remove it from the config."
            )
        if self.play is None and isinstance(self.population, League):
            raise ValueError("A league saves models with their play settings; make_env must use gym.make.")
        return envs

    def _check_base(self) -> None:
        """Raise the errors of `trl_compat` if TRL's trainer, its model or its tokenizer cannot train on rollouts."""
        trl_compat.check_attributes(self)
        trl_compat.check_model(
            self.accelerator.unwrap_model(self.model), self.processing_class, trl_compat.is_sharded(self)
        )
        trl_compat.make_base_absolute(self)
        trl_compat.check_precision(self)
        trl_compat.check_whole_model(self)

    def _exchange_callbacks(self, evaluates: bool) -> None:
        """Add the callbacks of a run, which also evaluate if `evaluates`, and remove those that print."""
        files = FilesOfRun(self.failure_log, self.run_log, self.progress)
        for added in (self.progress, self.preemption, self.skipped, files):
            self.add_callback(added)
        if evaluates:
            self.add_callback(Evaluations(self.progress, self.args.eval_every, self.args.max_rollouts))
        # The run log and the console replace them.
        for callback in (ProgressCallback, PrinterCallback):
            self.pop_callback(callback)

    def _make_backend(self, generator: Callable[[MAGETrainer], AnyGenerator] | None) -> AnyGenerator:
        """Return the rollout backend. Raise ValueError if it cannot sample among the legal actions as configured."""
        backend = (generator or BACKENDS[self.args.backend])(self)
        if self.args.constrained and isinstance(backend, LockStepGenerator):
            raise ValueError(
                'constrained=True samples among the legal actions, which TRL does not; use backend="cached".'
            )
        return backend

    def _opponents(self) -> Mapping[str, float]:
        """Return the current weights of the training opponents; empty if there are none."""
        return {} if self.population is None else self.population.weights()

    # -- what the Trainer's loop calls ----------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as `Trainer.train` does. A rollout that an earlier call left unfinished is dropped.

        With True it resumes from the newest sound checkpoint. If the run was complete at its checkpoint, no update
        follows.
        """
        self.updates.queue.clear()
        self._start = start = self.checkpoints.to_resume(resume_from_checkpoint)
        self.player.training = True
        try:
            with rare_collections(), self.checkpoints.length_known(start):
                return super().train(start, *args, **kwargs)
        except Preempted:
            # The resumed run plays this rollout again, so its checkpoint needs the random states from before the
            # rollout.
            self.preemption.rewind()
            self.preemption.stopped, self.progress.evaluation_due = True, self.evaluator.running
            return self.checkpoints.end_here()
        finally:
            self.player.training = self.evaluator.running = False
            self.player.close()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader with one item per optimiser step. The rows come from rollouts."""
        return DataLoader(cast("Dataset[Any]", range(self.args.max_steps)), batch_size=1, collate_fn=list)

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Accumulate the gradient of the next mini-batch; play a rollout first if no mini-batch is left."""
        model.train()
        # For optimisers with a training mode (schedule-free ones). The Trainer's own `training_step` does this, too.
        cast(Any, self.optimizer).train()
        if not self.updates.queue:
            self._start_rollout(model)
        return self.updates.train_next(model)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, without the rate of data-loader items.

        Under `updates_per_rollout="auto"` the epoch is the share of rollouts.
        """
        logs.pop("train_samples_per_second", None)
        if self.args.max_rollouts is not None and self.args.max_steps >= FOREVER:
            self.state.epoch = self.progress.rollouts / self.args.max_rollouts
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Play the evaluation tasks with the sampling parameters of evaluations.

        Returns the metrics of `rollout_metrics` and the scores of the panel, each with the prefix `eval_`.
        """
        return self.evaluator.run(partial(super().evaluate, *args, **kwargs))

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Trainer's loop, and add the scores of the panel to its metrics."""
        output: Any = super().evaluation_loop(*args, **kwargs)
        self.evaluator.add_scores(output.metrics)
        return output

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[None, None, None]:
        """Play a batch of evaluation tasks; there is no loss, so all three results are None."""
        self.evaluator.play_batch(item["index"] for item in inputs)
        return None, None, None

    def run_epoch(self, default: Callable[[], None]) -> None:
        # A resumed run repeats the aborted evaluation in its first training step, inside the epoch.
        with suppress(EndedByEvaluation):
            default()

    def on_loop_end(self) -> None:
        # Without steps left, no training step plays the aborted evaluation or restores the random state.
        if self.progress.evaluation_due:
            self.restore_random_state(self._start)
            with suppress(EndedByEvaluation):
                self.evaluator.make_up()

    def is_best(self, metrics: Mapping[str, float], default: Callable[[], bool]) -> bool:
        return self.evaluator.is_best(metrics, default)

    def on_gradient(self, norm: Any) -> None:
        self.updates.log_update(norm)

    # -- checkpoints and models -----------------------------------------------------------------------------

    @property
    def is_sharded(self) -> bool:
        """True if no rank holds the whole model, so that all ranks must take part in writing it."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def save_checkpoint(self, default: Callable[[], None]) -> None:
        self.checkpoints.save(default)

    def checkpoint_parent(self) -> Path | None:
        return self.checkpoints.draft

    def write_model(self, folder: str | Path, together: bool = True) -> None:
        """Write the current model and its play settings into `folder`; other files in it stay.

        Without `together` this rank writes alone, which sharded models do not allow.
        """
        self.checkpoints.write_model(folder, together)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model as the Trainer does, with its play settings (`mage.json`) and a model card."""
        self.checkpoints.save_parts(output_dir, _internal_call)
        super().save_model(output_dir, _internal_call)

    def create_model_card(self, model_name: str | None = None, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Write the card of the model into the run's folder, in place of TRL's.

        TRL calls this at each checkpoint, too. Checkpoints have a card of their own.
        """
        if self.is_world_process_zero() and self.checkpoints.draft is None:
            self.checkpoints.write_card(Path(str(self.args.output_dir)), model_name)

    # -- rollout --------------------------------------------------------------------------------------------

    def _start_rollout(self, model: torch.nn.Module) -> None:
        """Play the next rollout and queue its mini-batches."""
        self.evaluator.make_up()
        # Fewest objects are alive now, so this costs least; see `rare_collections`.
        gc.collect(1)
        index = self.progress.rollouts
        # Before the first update `on_epoch_begin` has marked the states.
        if self.state.global_step:
            self.preemption.mark()
        self.run_log.on_rollout_begin(index, self.state.global_step)
        # After a resume the population is new, and its state is that of the checkpoint.
        restore_population(self.population, self.progress.population)
        trajectories, trained, clock, extra_metrics = self.player.play_rollout(index)
        message = failure_message(trajectories, index, self.args.failure_threshold)
        if message is not None:
            raise RunStopped(f"{message}; tracebacks: {self.failure_log.path}")
        advantages, metrics = compute_advantages(trained, self.credit, self.critic)
        rows = build_rows(trained, advantages, merge=self.args.merge_prefixes, mask_truncated=self.args.mask_truncated)
        # With mask_truncated a rollout may have cut replies only. Its update is skipped and counted.
        if not rows and not self.args.mask_truncated:
            raise ValueError(f"Rollout {index} has no reply to train on. Raise max_prompt_length.")
        # Keyed by the rollout, so that all ranks and a resumed run shuffle alike.
        rng = stream(self.args.seed, SHUFFLE, index)
        batches = split_updates(rows, self.args.updates_of(sum(row.steps for row in rows)), rng)
        self.updates.fill(batches)
        if self.args.max_rollouts is not None:
            # The number of steps in the Trainer's loop, as far as it is known.
            remaining_steps = (self.args.max_rollouts - index) * len(batches)
            self.state.max_steps = min(self.args.max_steps, self.state.global_step + remaining_steps)
        start_time = time.perf_counter()
        metrics |= extra_metrics | self.updates.score(model)
        metrics |= variance_metrics(trajectories, trained) | rollout_metrics(trajectories)
        metrics |= {
            "failures/total": float(self.failure_log.count),
            "rollout": float(index),
            "updates_per_rollout": float(len(batches)),
            "rows": float(len(rows)),
            "time/score": time.perf_counter() - start_time,
        }
        metrics |= time_metrics(trajectories, clock.generate, clock.total)
        self.progress.rollouts = index + 1
        if self.args.exploitability_every and (index + 1) % self.args.exploitability_every == 0:
            metrics |= self.player.exploitability(index)
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
        is_last = self.args.max_rollouts is not None and index + 1 >= self.args.max_rollouts
        if self.args.rollout_ahead and not is_last and self.state.global_step + len(batches) < self.state.max_steps:
            self.player.play_ahead(index + 1)
