"""Evaluations during training: fixed tasks, played once each by the current model."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.utils.data import Sampler, SequentialSampler

from mage_envs.core import Task
from trainer.method.metrics import rollout_metrics
from trainer.method.trajectory import Trajectory
from trainer.rollout.rollout import RolloutSpec
from trainer.runs.panel_evaluation import SCORE, PanelPlayed, Scored
from trainer.trl import trl_compat
from trainer.trl.evaluation_sampling import evaluation_sampling, sampled_as
from trainer.trl.rollout_player import RolloutTrainer


class EndedByEvaluation(Exception):
    """Signal that the evaluation at the start of a resumed run ends the training."""


class EvaluatingTrainer(RolloutTrainer):
    """Trainer that plays `eval_tasks` at every evaluation."""

    eval_tasks: tuple[Task, ...] = ()
    evaluation: PanelPlayed | None = None
    """Panel that scores the tasks; None if they do not belong to a panel."""
    stopped_early = False
    """True if `early_stop` ended the run."""
    _evaluating = False
    """True from the start of an evaluation until it completes; it stays True if the evaluation is aborted."""

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Play `eval_tasks` with the sampling parameters of evaluations.

        Returns the metrics of `rollout_metrics` and the scores of the panel, each with the prefix `eval_`.
        """
        self._evaluated: list[Trajectory] = []
        self._evaluating = True
        # An aborted evaluation rewinds the random state to this mark, and the resumed run repeats it.
        if self._interruptible("eval"):
            self.preemption.mark()
        with sampled_as(self, self.generator, *evaluation_sampling(self.play, self.args)):
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        self._evaluating = False
        return metrics

    def make_up_evaluation(self) -> None:
        """Play the evaluation that the preempted run aborted, if there is one.

        Raises EndedByEvaluation if the evaluation ends the run (`early_stop`).
        """
        if not self.progress.evaluation_due:
            return
        state = self.state
        metrics = self._evaluate(None, None)
        self._determine_best_metric(metrics, None)
        self.progress.evaluation_due = False
        # The checkpoint of the best score exists: it is the one that this run resumes from, or an older one.
        if state.best_global_step:
            state.best_model_checkpoint = str(Path(str(self.args.output_dir)) / f"checkpoint-{state.best_global_step}")
        if self.control.should_training_stop:
            raise EndedByEvaluation

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # A resumed run repeats the aborted evaluation in its first training step, inside the epoch.
        with suppress(EndedByEvaluation):
            super()._run_epoch(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        """Play the last evaluation if it was aborted, then finalise as the Trainer does."""
        # Without steps left, no training step plays the aborted evaluation or restores the random state.
        if self.progress.evaluation_due:
            self._load_rng_state(self._start)
            with suppress(EndedByEvaluation):
                self.make_up_evaluation()
        return super()._finalize_training(*args, **kwargs)  # type: ignore[no-untyped-call]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Trainer's loop, and add the scores of the panel to its metrics."""
        output: Any = super().evaluation_loop(*args, **kwargs)
        if self.evaluation is not None:
            scored = self.evaluation.scored(self._once(), self.state.global_step)
            output.metrics.update({f"eval_{name}": value for name, value in scored.metrics.items()})
            if self.accelerator.is_main_process:
                self._tell(scored)
        return output

    def _once(self) -> list[Trajectory]:
        """Return the meta-episodes in the order of the tasks, each task once."""
        # Ranks repeat some tasks to fill the last batch.
        once = {trajectory.group: trajectory for trajectory in self._evaluated}
        return [once[group] for group in sorted(once)]

    def _tell(self, scored: Scored) -> None:
        """Log the scores, and the comparison with the best score so far."""
        state, score = self.state, scored.metrics[SCORE]
        best = "the best so far"
        if state.best_metric is not None and score <= state.best_metric:
            best = f"best {state.best_metric:.3f} after update {state.best_global_step}"
        line = f"evaluation after update {state.global_step}: score {score:.3f} ({best}), {len(self._evaluated)} played"
        told: dict[str, Any] = {**scored.metrics, "table": scored.table}
        self.run_log.on_evaluation(self.progress.rollouts, state.global_step, told, line)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Return True if the panel's score is the best so far. Then a checkpoint is saved, which rotation keeps.

        After `early_stop` consecutive evaluations without a better score, the run ends.
        """
        if self.evaluation is None:
            return bool(super()._determine_best_metric(metrics, trial))
        state, score = self.state, metrics[f"eval_{SCORE}"]
        if state.best_metric is None or score > state.best_metric:
            state.best_metric, state.best_global_step = score, state.global_step
            self.control.should_save = self.control.should_save or self.args.save_strategy != "no"
            return True
        since = [
            row for row in state.log_history if f"eval_{SCORE}" in row and row["step"] > (state.best_global_step or 0)
        ]
        if self.args.early_stop and len(since) >= self.args.early_stop:
            self.control.should_training_stop = self.stopped_early = True
        return False

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[None, None, None]:
        """Play a batch of evaluation tasks; there is no loss, so all three results are None."""
        specs = [RolloutSpec(self.eval_tasks[item["index"]], group=item["index"]) for item in inputs]
        trajectories, _ = self._play(specs, "eval")
        self._evaluated += trajectories
        # The log averages over batches. `replace` keeps the metrics over all meta-episodes so far instead.
        trl_compat.record(self, "eval", rollout_metrics(self._once()), replace=True)
        return None, None, None

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[Any]:
        return SequentialSampler(eval_dataset)
