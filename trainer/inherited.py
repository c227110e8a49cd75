"""Options of TRL and transformers that this trainer does not read: refused where they are set, with what to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from trl.trainer.grpo_config import GRPOConfig

_LENGTH = "the length of a run is max_rollouts or max_steps"
_ENVIRONMENT = "rewards come from the environment and its protocol"
_LOSS = "loss_type is dapo"
_PADDING = "micro-batches are padded to their longest row (max_tokens_per_microbatch)"
_DATA = "there is no data set; rollouts are played"
_COMMAND = "what a run does is said by its command"
_SAMPLING = "log-probabilities are corrected for temperature only"
NOT_READ: Mapping[str, str] = {
    "num_train_epochs": _LENGTH,
    "reward_weights": _ENVIRONMENT,
    "multi_objective_aggregation": _ENVIRONMENT,
    "scale_rewards": "what advantages are divided by is advantage_norm",
    "sapo_temperature_neg": _LOSS,
    "sapo_temperature_pos": _LOSS,
    "vespo_k_pos": _LOSS,
    "vespo_lambda_pos": _LOSS,
    "vespo_k_neg": _LOSS,
    "vespo_lambda_neg": _LOSS,
    "entropy_coef_min": "entropy_coef stays as it is",
    "entropy_coef_max": "entropy_coef stays as it is",
    "entropy_coef_delta": "entropy_coef stays as it is",
    "entropy_target": "entropy_coef stays as it is",
    "max_tool_calling_iterations": "the environment is the only tool",
    "log_multimodal": "prompts are text",
    "num_completions_to_print": "pass on_rollout_end to MAGETrainer",
    "log_unique_prompts": "pass on_rollout_end to MAGETrainer",
    "log_completions_hub_repo": "pass on_rollout_end to MAGETrainer",
    "pad_to_multiple_of": _PADDING,
    "auto_find_batch_size": _PADDING,
    "shuffle_dataset": _DATA,
    "train_sampling_strategy": _DATA,
    "group_by_length": _DATA,
    "dataloader_num_workers": _DATA + " (env_workers)",
    "dataloader_prefetch_factor": _DATA,
    "dataloader_drop_last": _DATA,
    "length_column_name": _DATA,
    "do_train": _COMMAND,
    "do_eval": _COMMAND + " (eval_strategy)",
    "do_predict": _COMMAND,
    "resume_from_checkpoint": _COMMAND + " (--resume)",
    "prediction_loss_only": "evaluation plays tasks and has no loss",
    "torch_empty_cache_steps": "updates are this trainer's own",
    "average_tokens_across_devices": "losses are means over the tokens of all processes",
    "generation_kwargs": _SAMPLING,
    "vllm_structured_outputs_regex": _SAMPLING,
    "use_transformers_paged": "it hangs on CPU (use_vllm)",
    "transformers_continuous_batching_config": "it hangs on CPU (use_vllm)",
    "label_smoothing_factor": "the loss is the policy's",
    "label_names": "the loss is the policy's",
}
"""Name and reason; those that the installed versions do not have are passed over."""


def unread(config: GRPOConfig) -> list[tuple[bool, str]]:
    """(whether it was set, what to say) for each option that is not read."""
    default = {
        item.name: item.default_factory() if item.default_factory is not MISSING else item.default
        for item in fields(GRPOConfig)
        if item.name in NOT_READ
    }
    values: Mapping[str, Any] = vars(config)
    return [
        (values[name] != given, f"{name}={values[name]!r} is not read: {NOT_READ[name]}; leave it out.")
        for name, given in default.items()
    ]


def refused(c: GRPOConfig, backend: str) -> list[tuple[bool, str]]:
    """(whether it is set so, what to say) for options of TRL that are offered otherwise, or not at all."""
    neutral = c.top_p == 1.0 and not c.top_k and not c.min_p and c.repetition_penalty == 1.0
    return [
        (
            c.gradient_accumulation_steps != 1,
            f"gradient_accumulation_steps={c.gradient_accumulation_steps}: memory is bounded by "
            "max_tokens_per_microbatch instead; leave it at 1.",
        ),
        ((c.eval_steps or 1) < 1, "eval_steps is a share of a length that may be unknown; use a whole number."),
        (
            c.num_generations_eval not in (None, 1),
            f"num_generations_eval={c.num_generations_eval}: each evaluation task is played once; leave it out.",
        ),
        (c.num_iterations != 1, f"num_iterations={c.num_iterations}: a rollout is passed once; set it to 1."),
        (
            (c.steps_per_generation or 1) != 1 or c.generation_batch_size is not None,
            "steps_per_generation and generation_batch_size are TRL's; use groups_per_rollout and updates_per_rollout.",
        ),
        (
            not neutral,
            "top_p, top_k, min_p and repetition_penalty must be neutral in training (1, 0, None, 1): "
            "log-probabilities are corrected for temperature only.",
        ),
        (c.importance_sampling_level != "token", "importance_sampling_level: a row may hold many steps; use token."),
        (c.mask_truncated_completions, "mask_truncated_completions is TRL's; use mask_truncated."),
        (
            c.off_policy_mask_threshold is not None or c.top_entropy_quantile < 1 or c.use_adaptive_entropy,
            "off_policy_mask_threshold, top_entropy_quantile and use_adaptive_entropy are not offered; leave them off.",
        ),
        (c.use_transformers_continuous_batching, "use_transformers_continuous_batching hangs on CPU; use use_vllm."),
        (
            c.cache_implementation is not None and (c.use_vllm or backend != "trl"),
            f"cache_implementation={c.cache_implementation!r} is of transformers' own sampling; use backend=trl "
            "without use_vllm, or leave it out.",
        ),
        (c.log_completions, "log_completions is not offered; pass on_rollout_end to MAGETrainer."),
    ]
