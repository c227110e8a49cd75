"""A trainer's evaluations: fixed tasks, once each, by the model as it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.utils.data import Sampler, SequentialSampler

from mage_envs.core import Task
from trainer import trl_compat
from trainer.metrics import rollout_metrics
from trainer.panels import SCORE, PanelPlayed, Scored
from trainer.rollout import RolloutSpec
from trainer.rollout_trainer import RolloutTrainer
from trainer.sampling import evaluation_sampling, sampled_as
from trainer.trajectory import Trajectory


class EndedByEvaluation(Exception):
    """The evaluation with which a run goes on says that no more is trained."""


class EvaluatingTrainer(RolloutTrainer):
    """Plays `eval_tasks` at every evaluation."""

    eval_tasks: tuple[Task, ...] = ()
    evaluation: PanelPlayed | None = None
    """What scores them, where they are a panel's."""
    stopped_early = False
    _evaluating = False
    """Whether an evaluation has begun that has not ended."""

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Plays `eval_tasks`, sampled as evaluations are; the metrics, with the prefix `eval_`, are those of
        `rollout_metrics` and the scores of a panel."""
        self._evaluated: list[Trajectory] = []
        self._evaluating = True
        if self._interruptible("eval"):
            self.preemption.mark()
        with sampled_as(self, self.generator, *evaluation_sampling(self.play, self.args)):
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        self._evaluating = False
        return metrics

    def make_up_evaluation(self) -> None:
        """Plays the evaluation that was given up where this run goes on from, if one was.

        Raises EndedByEvaluation where the run ends with it.
        """
        if not self.progress.evaluation_due:
            return
        state = self.state
        metrics = self._evaluate(None, None)
        self._determine_best_metric(metrics, None)
        self.progress.evaluation_due = False
        if state.best_global_step:  # that checkpoint is there: the one which this run goes on from, or an older one
            state.best_model_checkpoint = str(Path(str(self.args.output_dir)) / f"checkpoint-{state.best_global_step}")
        if self.control.should_training_stop:
            raise EndedByEvaluation

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        with suppress(EndedByEvaluation):
            super()._run_epoch(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's, after the last evaluation, where that was given up."""
        if self.progress.evaluation_due:
            self._load_rng_state(self._start)
            with suppress(EndedByEvaluation):
                self.make_up_evaluation()
        return super()._finalize_training(*args, **kwargs)  # type: ignore[no-untyped-call]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's, with the scores of the panel."""
        output: Any = super().evaluation_loop(*args, **kwargs)
        if self.evaluation is not None:
            scored = self.evaluation.scored(self._once(), self.state.global_step)
            output.metrics.update({f"eval_{name}": value for name, value in scored.metrics.items()})
            if self.accelerator.is_main_process:
                self._tell(scored)
        return output

    def _once(self) -> list[Trajectory]:
        """The meta-episodes in the order of the tasks; ranks pad with repetitions."""
        once = {trajectory.group: trajectory for trajectory in self._evaluated}
        return [once[group] for group in sorted(once)]

    def _tell(self, scored: Scored) -> None:
        state, score = self.state, scored.metrics[SCORE]
        best = "the best so far"
        if state.best_metric is not None and score <= state.best_metric:
            best = f"best {state.best_metric:.3f} after update {state.best_global_step}"
        line = f"evaluation after update {state.global_step}: score {score:.3f} ({best}), {len(self._evaluated)} played"
        told: dict[str, Any] = {**scored.metrics, "table": scored.table}
        self.run_log.evaluated(self.progress.rollouts, state.global_step, told, line)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Whether the panel's score is the best so far: then a checkpoint is written, which rotation keeps.

        Ends the run after `early_stop` evaluations in a row without a better one.
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
        """Plays this batch of evaluation tasks."""
        specs = [RolloutSpec(self.eval_tasks[item["index"]], group=item["index"]) for item in inputs]
        trajectories, _ = self._play(specs, "eval")
        self._evaluated += trajectories
        trl_compat.record(self, "eval", rollout_metrics(self._once()), replace=True)
        return None, None, None

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[Any]:
        return SequentialSampler(eval_dataset)
