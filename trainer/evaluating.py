"""A trainer's evaluations: fixed tasks, once each, by the model as it is."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Sampler, SequentialSampler

from mage_envs.core import Task
from trainer import trl_compat
from trainer.metrics import rollout_metrics
from trainer.rollout import RolloutSpec
from trainer.rollout_trainer import RolloutTrainer
from trainer.trajectory import Trajectory


class EvaluatingTrainer(RolloutTrainer):
    """Plays `eval_tasks` at every evaluation."""

    eval_tasks: tuple[Task, ...] = ()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Plays `eval_tasks`; the metrics are those of `rollout_metrics`, with the prefix `eval_`."""
        self._evaluated: list[Trajectory] = []
        metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[None, None, None]:
        """Plays this batch of evaluation tasks."""
        specs = [RolloutSpec(self.eval_tasks[item["index"]], group=item["index"]) for item in inputs]
        trajectories, _ = self._play(specs, "eval")
        self._evaluated += trajectories
        once = {trajectory.group: trajectory for trajectory in self._evaluated}  # ranks pad with repetitions
        trl_compat.record(self, "eval", rollout_metrics(list(once.values())), replace=True)
        return None, None, None

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[Any]:
        return SequentialSampler(eval_dataset)
