"""`MAGEConfig`, the dataclass of all settings of a training run, which `TrlParser` reads from YAML and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import chain
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig

from mage_envs.trainer.config.run_settings import RunSettings, processes_started
from mage_envs.trainer.method.metrics import WronglyStarted

_NOT_READ: Mapping[str, Sequence[str]] = {
    "the length of a run is max_rollouts or max_steps": ("num_train_epochs",),
    "rewards come from the environment and its protocol": ("reward_weights", "multi_objective_aggregation"),
    "advantage_norm selects the divisor of advantages": ("scale_rewards",),
    "loss_type is dapo": (
        *("sapo_temperature_neg", "sapo_temperature_pos"),
        *("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
    ),
    "entropy_coef stays as it is": ("entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"),
    "the environment is the only tool": ("max_tool_calling_iterations",),
    "prompts are text": ("log_multimodal",),
    "pass on_rollout_end to MAGETrainer": (
        *("num_completions_to_print", "log_unique_prompts", "log_completions_hub_repo"),
    ),
    "micro-batches are padded to their longest row (max_tokens_per_microbatch)": (
        "pad_to_multiple_of",
        "auto_find_batch_size",
    ),
    "rollouts replace the data set": (
        *("shuffle_dataset", "train_sampling_strategy", "group_by_length", "length_column_name"),
        *("dataloader_prefetch_factor", "dataloader_drop_last"),
    ),
    "rollouts replace the data set (env_workers)": ("dataloader_num_workers",),
    "the command selects the task": ("do_train", "do_predict"),
    "eval_strategy selects evaluations": ("do_eval",),
    "the command selects it (--resume)": ("resume_from_checkpoint",),
    "evaluation plays tasks and has no loss": ("prediction_loss_only",),
    "updates are this trainer's own": ("torch_empty_cache_steps",),
    "losses are means over the tokens of all processes": ("average_tokens_across_devices",),
    "log-probabilities are corrected for temperature only": ("generation_kwargs", "vllm_structured_outputs_regex"),
    "it hangs on a CPU (use_vllm)": ("use_transformers_paged", "transformers_continuous_batching_config"),
    "the loss is the policy's": ("label_smoothing_factor", "label_names"),
}
NOT_READ: Mapping[str, str] = {name: reason for reason, names in _NOT_READ.items() for name in names}
"""Reason by option. Options that the installed versions do not have are skipped."""


@dataclass
class MAGEConfig(RunSettings, GRPOConfig):  # type: ignore[misc]
    """Settings of a training run: `RunSettings` and all other fields of `trl.GRPOConfig`.

    A field that this trainer does not read raises ValueError if it is set.
    """

    def __post_init__(self) -> None:
        # TRL would train in bf16 on a CPU, too. Checkpointing spares the memory of an accelerator and costs time.
        on_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            self.bf16 = not on_cpu and not self.fp16
        if self.gradient_checkpointing is None:
            self.gradient_checkpointing = not on_cpu
        self.settle()
        if (message := next(chain(unsupported_options(self, self.backend), unread_options(self)), None)) is not None:
            raise ValueError(message)
        # Last, because `settle` computes fields that TRL checks: the batch size and the number of steps.
        GRPOConfig.__post_init__(self)  # type: ignore[no-untyped-call]
        num_started = processes_started()
        if num_started > self.world_size:
            # TRL has made a group. The first process serves its store, so it may end only after the others have joined.
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                torch.distributed.barrier()
            raise WronglyStarted(
                f"{num_started} processes were started (WORLD_SIZE), but accelerate sees {self.world_size}, so each "
                f"would train a model of its own. Add --use_cpu true to train on CPUs, or start one process per GPU."
            )


# -- options of TRL and transformers that this trainer does not read ---------------------------------------


def unread_options(config: GRPOConfig) -> Iterator[str]:
    """Yield a message for each option that is set but not read."""
    # An option counts as set if it differs from the default of the installed version.
    default = {
        item.name: item.default_factory() if item.default_factory is not MISSING else item.default
        for item in fields(GRPOConfig)
        if item.name in NOT_READ
    }
    values: Mapping[str, Any] = vars(config)
    for name, default_value in default.items():
        if values[name] != default_value:
            yield f"{name}={values[name]!r} is not read: {NOT_READ[name]}. Remove it."


def unsupported_options(c: GRPOConfig, backend: str) -> Iterator[str]:
    """Yield a message for each TRL option with a value that is not supported, or that another option replaces."""
    # Neutral values only: log-probabilities of the loss are the model's at a temperature, without truncated tails.
    neutral = c.top_p == 1.0 and not c.top_k and not c.min_p and c.repetition_penalty == 1.0
    schedule = str(c.lr_scheduler_type).removeprefix("SchedulerType.").lower()
    if c.warmup_steps and schedule == "constant":
        yield (
            f"warmup_steps={c.warmup_steps:g} is not read by lr_scheduler_type=constant. Use constant_with_warmup, or "
            "remove it."
        )
    if c.gradient_accumulation_steps != 1:
        yield (
            f"gradient_accumulation_steps={c.gradient_accumulation_steps}: memory is bounded by "
            "max_tokens_per_microbatch instead. Leave it at 1."
        )
    if (c.eval_steps or 1) < 1:
        yield "eval_steps is a share of a length that may be unknown. Use a whole number."
    if c.num_generations_eval not in (None, 1):
        yield f"num_generations_eval={c.num_generations_eval}: each evaluation task is played once. Remove it."
    if c.num_iterations != 1:
        yield f"num_iterations={c.num_iterations}: the trainer passes a rollout once. Set it to 1."
    if (c.steps_per_generation or 1) != 1 or c.generation_batch_size is not None:
        yield (
            "steps_per_generation and generation_batch_size are not read. Use groups_per_rollout and "
            "updates_per_rollout."
        )
    if not neutral:
        yield (
            "top_p, top_k, min_p and repetition_penalty must be neutral in training (1, 0, None, 1): "
            "log-probabilities are corrected for temperature only."
        )
    if c.importance_sampling_level != "token":
        yield "importance_sampling_level: a row may contain many steps. Use token."
    if c.mask_truncated_completions:
        yield "mask_truncated_completions is not read. Use mask_truncated."
    if c.off_policy_mask_threshold is not None or c.top_entropy_quantile < 1 or c.use_adaptive_entropy:
        yield (
            "off_policy_mask_threshold, top_entropy_quantile and use_adaptive_entropy are not supported. Remove them."
        )
    if c.use_transformers_continuous_batching:
        yield "use_transformers_continuous_batching hangs on a CPU. Use use_vllm."
    if c.cache_implementation is not None and (c.use_vllm or backend != "trl"):
        yield (
            f"cache_implementation={c.cache_implementation!r} applies to transformers' own sampling. Use backend=trl "
            "without use_vllm, or remove it."
        )
    if c.log_completions:
        yield "log_completions is not supported. Pass on_rollout_end to MAGETrainer."
