"""Evaluations during training: fixed tasks, played once each by the current model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from trl.trainer.grpo_trainer import GRPOTrainer

from mage_envs.core import Task
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.generation import LockStepGenerator
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.vllm_server import StreamingServerGenerator
from mage_envs.trainer.backends.vllm_stream import StreamingVLLMGenerator
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.method.metrics import rollout_metrics
from mage_envs.trainer.runs.console import evaluation_lines
from mage_envs.trainer.runs.panel_evaluation import SCORE, PanelPlayed, Scored
from mage_envs.trainer.runs.preemption import Preemption
from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.trainer.runs.summary import figure
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.backend_registry import AnyGenerator
from mage_envs.trainer.trl.callbacks import RolloutProgress
from mage_envs.trainer.trl.rollout_player import RolloutPlayer
from mage_envs.trainer.trl.trainer_hooks import TrainerHooks
from mage_envs.wrappers.rollout.exploitability import Z
from mage_envs.wrappers.rollout.loop import RolloutSpec
from mage_envs.wrappers.rollout.trajectory import Trajectory

PAPER = (0.7, 0.8, 20)
"""Temperature, top-p and top-k of the paper's evaluations."""


class EndedByEvaluation(Exception):
    """Signal that the evaluation at the start of a resumed run ends the training."""


class Evaluator:
    """Plays the evaluation tasks of a run, and compares the scores of their panel.

    Args:
        trainer: The trainer, for its settings, state and control.
        tasks: Tasks that each evaluation plays once.
        panel: Panel that scores the tasks; None if they do not belong to a panel.
        play: Play settings of the model; None if `gym.make` did not make the environment.
        preemption: Signal that ends the run.
    """

    def __init__(
        self,
        trainer: TrainerHooks,
        player: RolloutPlayer,
        *,
        tasks: Sequence[Task],
        panel: PanelPlayed | None,
        play: PlaySettings | None,
        run_log: RunLog,
        progress: RolloutProgress,
        preemption: Preemption,
    ) -> None:
        self.played: list[Trajectory] = []
        """Meta-episodes of the last evaluation, on all ranks."""
        self.running = False
        """True from the start of an evaluation until it completes; it stays True if the evaluation is aborted."""
        self._trainer, self._player = trainer, player
        self._tasks, self._panel, self._play = tuple(tasks), panel, play
        self._run_log, self._progress, self._preemption = run_log, progress, preemption

    def run(self, default: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Evaluate with the sampling parameters of evaluations; `default` is the Trainer's own loop."""
        self.played = []
        self.running = True
        # An aborted evaluation rewinds the random state to this mark, and the resumed run repeats it.
        if self._player.interruptible("eval"):
            self._preemption.mark()
        sampling_parameters = evaluation_sampling(self._play, self._trainer.args)
        with override_sampling(self._trainer, self._player.generator, *sampling_parameters):
            metrics = default()
        self.running = False
        return metrics

    def make_up(self) -> None:
        """Play the evaluation that the preempted run aborted, if there is one.

        Raises EndedByEvaluation if the evaluation ends the run (`early_stop`).
        """
        if not self._progress.evaluation_due:
            return
        trainer, state = self._trainer, self._trainer.state
        trainer.update_best(trainer.run_evaluation())
        self._progress.evaluation_due = False
        # The checkpoint of the best score exists: it is the one that this run resumes from, or an older one.
        if state.best_global_step:
            best = Path(str(trainer.args.output_dir)) / f"checkpoint-{state.best_global_step}"
            state.best_model_checkpoint = str(best)
        if trainer.control.should_training_stop:
            raise EndedByEvaluation

    def play_batch(self, indices: Iterable[int]) -> None:
        """Play the tasks of a batch."""
        specs = [RolloutSpec(self._tasks[index], group=index) for index in indices]
        trajectories, _ = self._player.play(specs, "eval")
        self.played += trajectories
        # The log averages over batches. `replace` keeps the metrics over all meta-episodes so far instead.
        trl_compat.record(self._trainer, "eval", rollout_metrics(self._once()), replace=True)

    def add_scores(self, metrics: dict[str, float]) -> None:
        """Add the scores of the panel to the metrics of an evaluation, and log them."""
        if self._panel is None:
            return
        scored = self._panel.scored(self._once(), self._trainer.state.global_step)
        if (parts := self._memory_parts()) is not None:
            scored = scored._replace(metrics={**scored.metrics, **parts})
        metrics.update({f"eval_{name}": value for name, value in scored.metrics.items()})
        if self._trainer.accelerator.is_main_process:
            self._log(scored)

    def is_best(self, metrics: Mapping[str, float], default: Callable[[], bool]) -> bool:
        """Return True if the panel's score is the best so far. Then a checkpoint is saved, which rotation keeps.

        After `early_stop` consecutive evaluations without a better score, the run ends.
        """
        if self._panel is None:
            return default()
        trainer, state, score = self._trainer, self._trainer.state, metrics[f"eval_{SCORE}"]
        if state.best_metric is None or score > state.best_metric:
            state.best_metric, state.best_global_step = score, state.global_step
            trainer.control.should_save = trainer.control.should_save or trainer.args.save_strategy != "no"
            return True
        since = [
            row for row in state.log_history if f"eval_{SCORE}" in row and row["step"] > (state.best_global_step or 0)
        ]
        if trainer.args.early_stop and len(since) >= trainer.args.early_stop:
            trainer.control.should_training_stop = True
        return False

    def _memory_parts(self) -> dict[str, float] | None:
        """Play the tasks without memory if it is their turn, and return the gain over the episodes with and without.

        The measure is the game's headline, its mean over the meta-episodes that ended in both. The part of memory is
        their difference, with half its 95% interval over meta-episodes.
        """
        args = self._trainer.args
        number = self._progress.rollouts // max(args.eval_every, 1)
        if not args.eval_memory_every or number % args.eval_memory_every:
            return None
        specs = [RolloutSpec(task, group=index) for index, task in enumerate(self._tasks)]
        without = {t.group: t for t in self._player.play_without_memory(specs) if t.failure is None}
        pairs = [(t, without[t.group]) for t in self._once() if t.failure is None and t.group in without]
        # After early stop, meta-episodes have different lengths.
        pairs = [pair for pair in pairs if all(len(t.episodes) == t.num_episodes > 1 for t in pair)]
        if not pairs:
            return None
        gains = np.array([[gain_of(t, self._run_log.measure) for t in pair] for pair in pairs])
        parts = gains[:, 0] - gains[:, 1]
        own_gain, gain_without = gains.mean(axis=0)
        half = Z * parts.std(ddof=1) / np.sqrt(len(parts)) if len(parts) > 1 else np.inf
        names = ("gain/own_memory", "gain/no_memory", "gain/part_of_memory", "gain/half")
        return dict(zip(names, map(float, (own_gain, gain_without, parts.mean(), half)), strict=True))

    def _once(self) -> list[Trajectory]:
        """Return the meta-episodes in the order of the tasks, each task once."""
        # Ranks repeat some tasks to fill the last batch.
        once = {trajectory.group: trajectory for trajectory in self.played}
        return [once[group] for group in sorted(once)]

    def _log(self, scored: Scored) -> None:
        """Log the scores, and the comparison with the best score so far."""
        state, score = self._trainer.state, scored.metrics[SCORE]
        best = "the best so far"
        if state.best_metric is not None and score <= state.best_metric:
            best = f"best {state.best_metric:.3f} after update {state.best_global_step}"
        line = f"evaluation after update {state.global_step}: score {score:.3f} ({best}), {len(self.played)} played"
        line += "".join(f"\n    {text}" for text in evaluation_lines(scored.metrics, self._run_log.measure))
        values: dict[str, Any] = {**scored.metrics, "table": scored.table}
        self._run_log.on_evaluation(self._progress.rollouts, state.global_step, values, line)
        # A full disk or a file that is open elsewhere must not end a run.
        with suppress(OSError):
            figure(str(self._trainer.args.output_dir))


def gain_of(trajectory: Trajectory, measure: str) -> float:
    """Return the last episode less the first in a measure, `value` per hand or `success`."""
    first_episode, last_episode = trajectory.episodes[0], trajectory.episodes[-1]
    if measure == "success":
        return float(last_episode.success) - float(first_episode.success)
    return last_episode.value / last_episode.hands - first_episode.value / first_episode.hands


def evaluation_sampling(play_settings: PlaySettings | None, config: RunSettings) -> tuple[float, float, int]:
    """Return temperature, top-p and top-k of an evaluation.

    Each is the configured one, else the paper's under its protocol, else that of training.
    """
    paper = play_settings is not None and play_settings.env_kwargs.get("protocol") == "paper"
    temperature, top_p, top_k = PAPER if paper else (config.temperature, 1.0, 0)
    return (
        temperature if config.eval_temperature is None else config.eval_temperature,
        top_p if config.eval_top_p is None else config.eval_top_p,
        top_k if config.eval_top_k is None else config.eval_top_k,
    )


@contextmanager
def override_sampling(
    trainer: GRPOTrainer, generator: AnyGenerator, temperature: float, top_p: float, top_k: int
) -> Iterator[None]:
    """Set the sampling parameters of the trainer's backend inside the context. A scripted backend stays as it is.

    Args:
        top_p: Probability mass to sample from; 1 samples from all tokens.
        top_k: Number of tokens to sample from; 0 samples from all tokens.
    """
    parameters = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    # Each kind of backend stores its sampling parameters elsewhere.
    if isinstance(generator, LockStepGenerator):
        with trl_compat.sampling(trainer, parameters):
            yield
    elif isinstance(generator, CachedGenerator | StreamingVLLMGenerator | StreamingServerGenerator):
        backend: Any = generator
        previous_sampling = backend.sampling
        backend.sampling = replace(previous_sampling, **parameters)
        try:
            yield
        finally:
            backend.sampling = previous_sampling
    else:
        yield
