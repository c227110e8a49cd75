"""Options of TRL and transformers that this trainer does not read: refused where they are set, with what to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib.util import find_spec
from typing import Any

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.model_config import ModelConfig

_LENGTH = "the length of a run is max_rollouts or max_steps"
_ENVIRONMENT = "rewards come from the environment and its protocol"
_LOSS = "loss_type is dapo"
_PADDING = "micro-batches are padded to their longest row (max_tokens_per_microbatch)"
_DATA = "there is no data set; rollouts are played"
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


def unread_of_model(model: ModelConfig) -> list[tuple[bool, str]]:
    """The same for `ModelConfig`: what belongs to an adapter or to quantised weights, without these."""
    quantised = model.load_in_4bit or model.load_in_8bit
    which = "load_in_4bit" if model.load_in_4bit else "load_in_8bit"
    rules = [
        (model.load_in_4bit and model.load_in_8bit, "load_in_4bit and load_in_8bit exclude each other; choose one."),
        (
            quantised and not model.use_peft,
            f"{which} freezes the weights, so that an adapter alone can be trained; add --use_peft true.",
        ),
        (
            quantised and find_spec("bitsandbytes") is None,
            f"{which} needs bitsandbytes. Install it with: pip install bitsandbytes",
        ),
    ]
    for item in fields(ModelConfig):
        changed = item.default is not MISSING and vars(model)[item.name] != item.default
        if item.name.startswith("lora_") or item.name in ("use_rslora", "use_dora"):
            rules.append((changed and not model.use_peft, f"{item.name} is read with --use_peft true alone."))
        if item.name.startswith(("bnb_4bit", "use_bnb")):
            rules.append((changed and not model.load_in_4bit, f"{item.name} is read with --load_in_4bit true alone."))
    return rules
