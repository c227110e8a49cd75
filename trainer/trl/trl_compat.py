"""All uses of private names of TRL and of transformers' Trainer, and nothing else.

Checked against trl 1.16.0, transformers 5.17.0 and accelerate 1.15.0.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, gather_object, is_peft_model
from datasets import Dataset
from huggingface_hub import constants
from packaging.version import Version
from torch.distributed.tensor import DTensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers import __version__ as transformers_version
from trl import __version__ as trl_version
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import use_adapter

from mage_envs.random.streams import UInt64s, uniforms
from mage_envs.trainer.backends.batching import check_full_attention
from mage_envs.trainer.backends.local_model import Sampling, distribution, draw
from mage_envs.trainer.backends.weights import check_vocabulary

# TRL reports each training to the hub (hardware, architecture, number of processes). Here it does so only if the user
# asks for it with HF_HUB_DISABLE_TELEMETRY=0.
if "HF_HUB_DISABLE_TELEMETRY" not in os.environ:
    constants.HF_HUB_DISABLE_TELEMETRY = True

SUPPORTED = "trl>=1.16,<2"
SUPPORTED_TRANSFORMERS = "transformers>=5.10,<6"
PRIVATE_METHODS = (
    "_determine_best_metric",
    "_evaluate",
    "_finalize_training",
    "_generate_single_turn",
    "_get_eval_sampler",
    "_get_grad_norm",
    "_get_learning_rate",
    "_get_output_dir",
    "_load_rng_state",
    "_run_epoch",
    "_save",
    "_save_checkpoint",
)
"""Private methods of TRL's and transformers' trainers that this module and `trainer_hooks` call or override."""
PRIVATE_ATTRIBUTES = ("_metrics",)
"""Private attributes of a GRPOTrainer that this module reads or sets."""
PRIVATE_ATTRIBUTES_OF_VLLM = ("_last_loaded_step",)
"""Private attributes that it has only if it generates with vLLM."""


def _on_numbered_cpu(storage: Any, location: str) -> Any:
    """Return the storage if its location is a numbered CPU such as `cpu:0`, else None.

    With several CPU processes accelerate uses this name, from which torch by itself loads no optimizer.
    """
    return storage if location.startswith("cpu:") else None


# Priority 9 is before torch's own functions for CPU (10), which do not accept a numbered CPU.
torch.serialization.register_package(9, lambda _: None, _on_numbered_cpu)


def check_trl(version: str = trl_version, transformers: str = transformers_version) -> None:
    """Raise `ImportError` if TRL or transformers is outside its range, or has lost a private method of the list."""
    lost = [name for name in PRIVATE_METHODS if not hasattr(GRPOTrainer, name)]
    for package, installed, (low, high), supported in (
        ("trl", version, ("1.16", "2"), SUPPORTED),
        ("transformers", transformers, ("5.10", "6"), SUPPORTED_TRANSFORMERS),
    ):
        if not Version(low) <= Version(installed) < Version(high):
            raise ImportError(
                f"{package} {installed} is outside the supported range; install the supported one with: "
                f"pip install '{supported}'."
            )
    if lost:
        raise ImportError(
            f"trl {version} with transformers {transformers} does not have {', '.join(lost)}; install the supported "
            f"ones with: pip install '{SUPPORTED}' '{SUPPORTED_TRANSFORMERS}'."
        )


def check_attributes(trainer: GRPOTrainer) -> None:
    """Raise `ImportError` if TRL's trainer has lost a private attribute of the list."""
    names = PRIVATE_ATTRIBUTES + (PRIVATE_ATTRIBUTES_OF_VLLM if trainer.use_vllm else ())
    lost = [name for name in names if not hasattr(trainer, name)]
    if lost:
        raise ImportError(
            f"trl {trl_version} does not have {', '.join(lost)}; install the supported one with: "
            f"pip install '{SUPPORTED}'."
        )


def check_model(model: Any, tokenizer: Any, sharded: bool = False) -> None:
    """Refuse a model without positions or embeddings for its tokenizer, or that padding changes (on the left)."""
    model = model.get_base_model() if is_peft_model(model) else model
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise ValueError(
            f"{type(model).__name__}.forward takes no position_ids, and rows are padded on the left; "
            f"use a causal language model with rotary positions."
        )
    # A sharded model runs on all ranks at once only.
    if not sharded:
        check_vocabulary(model, tokenizer)
        check_full_attention(model)


def make_base_absolute(trainer: GRPOTrainer) -> None:
    """Replace a relative path of an adapter's base model, because the adapter is loaded from any current folder."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    for config in getattr(model, "peft_config", {}).values():
        name = config.base_model_name_or_path
        if name and Path(name).is_dir():
            config.base_model_name_or_path = str(Path(name).absolute())


def check_precision(trainer: GRPOTrainer) -> None:
    """Refuse to train weights in 16 bits, which hold three decimal digits: most updates would change nothing.

    Under FSDP and DeepSpeed, mixed precision keeps a copy in float32, which the optimiser changes.
    """
    args: Any = trainer.args
    if (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled) and (args.bf16 or args.fp16):
        return
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    half = [weight for weight in trained if weight.dtype in (torch.bfloat16, torch.float16)]
    if half:
        num_half, num_trained = (sum(weight.numel() for weight in weights) for weights in (half, trained))
        raise ValueError(
            f"{num_half} of {num_trained} trained weights are {str(half[0].dtype).removeprefix('torch.')}, in which "
            f"updates at learning_rate={args.learning_rate:g} round to nothing; load the model with --dtype float32 "
            f"(bf16=True computes in bfloat16 all the same), or train an adapter (--use_peft true)."
        )


def no_reward(**_: object) -> list[float | None]:
    """Satisfy `GRPOTrainer.__init__`. Rewards come from the environment."""
    raise RuntimeError("MAGETrainer takes rewards from the environment.")


def placeholder_dataset(rows: int = 1) -> Dataset:
    """Return a dataset that satisfies `GRPOTrainer.__init__`. Its column `index` numbers the rows."""
    return Dataset.from_dict({"prompt": [""] * rows, "index": list(range(rows))})


def record(trainer: GRPOTrainer, mode: str, metrics: Mapping[str, float], replace: bool = False) -> None:
    """Add values to TRL's averages for the next log line.

    Args:
        mode: `train` or `eval`.
        replace: True to drop the earlier values of these names.
    """
    for key, value in metrics.items():
        if replace:
            trainer._metrics[mode][key].clear()
        trainer._metrics[mode][key].append(value)


# -- generation ---------------------------------------------------------------------------------------------


def is_collective(trainer: GRPOTrainer) -> bool:
    """Return True if all ranks must generate together."""
    sharded = trainer.use_vllm or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    return bool(sharded and trainer.accelerator.num_processes > 1)


def is_sharded(trainer: GRPOTrainer) -> bool:
    """Return True if each process holds only a part of the weights."""
    return bool(trainer.is_fsdp_enabled or _zero_3(trainer) is not None)


def _zero_3(trainer: GRPOTrainer) -> Mapping[str, Any] | None:
    """Return the settings of DeepSpeed's ZeRO-3, or None if it does not shard the weights."""
    plugin = trainer.accelerator.state.deepspeed_plugin if trainer.is_deepspeed_enabled else None
    return plugin.deepspeed_config["zero_optimization"] if plugin is not None and plugin.zero_stage == 3 else None


def local_weights(trainer: GRPOTrainer) -> Iterator[torch.Tensor]:
    """Yield this process's part of each weight."""
    parted = _zero_3(trainer) is not None
    for weight in trainer.accelerator.unwrap_model(trainer.model).parameters():
        part = cast(Any, weight).ds_tensor if parted else weight.detach()
        yield part.to_local() if isinstance(part, DTensor) else part


def check_whole_model(trainer: GRPOTrainer) -> None:
    """Refuse DeepSpeed's ZeRO-3 if it would write shards of a checkpoint in place of a model."""
    gathers, settings = "stage3_gather_16bit_weights_on_model_save", _zero_3(trainer)
    if settings is not None and not settings.get(gathers):
        raise ValueError(
            f"DeepSpeed's ZeRO-3 would leave no whole model; set {gathers}: true in its zero_optimization."
        )


class _KeyedSampling(LogitsProcessor):
    """Processor that draws each row's token from the row's own stream, which fixes the sampler's choice.

    That sampler draws from torch's global generator, which an environment or an opponent in this process can seed.
    """

    def __init__(self, sampling: Sampling, keys: UInt64s) -> None:
        self._sampling, self._keys = sampling, keys
        self._drawn = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        ids, _ = draw(distribution(scores, self._sampling, None), uniforms(self._keys, self._drawn))
        # One call per generated token, so the count is the position in each row's stream.
        self._drawn += 1
        token_ids = torch.from_numpy(ids).to(scores.device)[:, None]
        # A single finite score: whatever the sampler draws, it is this token.
        return torch.full_like(scores, -torch.inf).scatter(1, token_ids, 0.0)


@contextmanager
def _sampling_by_key(trainer: GRPOTrainer, keys: UInt64s) -> Iterator[None]:
    """Make transformers sample row n of a batch by the stream `keys[n]`, with TRL's generation settings."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    config: Any = trainer.generation_config
    keyed = _KeyedSampling(Sampling(temperature=config.temperature, top_p=config.top_p, top_k=config.top_k), keys)
    # TRL's call passes no processors, and this attribute of the instance hides the class's method.
    model.generate = partial(model.generate, logits_processor=LogitsProcessorList([keyed]))
    try:
        yield
    finally:
        del model.generate


def generate_ids(
    trainer: GRPOTrainer, prompts: list[list[int]], keys: UInt64s
) -> tuple[list[list[int]], list[list[float]] | None]:
    """Return replies from TRL's own generation. Ranks that must send equally many prompts send filler prompts.

    transformers samples each reply by its key, in batches of at most `max_tokens_per_generation` tokens at the longest
    replies. vLLM samples by the streams of its engine.

    Args:
        prompts: Token ids of each prompt.
        keys: Key of each prompt's sampling stream, shape (n,).

    Returns:
        The sampled ids of each prompt, and their log-probabilities if TRL returns them.
    """
    count = len(prompts)
    if is_collective(trainer):
        max_count = max(gather_object([count]))
        # Filler: in a collective call all ranks must send equally many prompts.
        prompts = prompts + [prompts[0]] * (max_count - count)
        keys = np.pad(keys, (0, max_count - count))
    parts = [slice(0, len(prompts))]
    budget = cast(Any, trainer.args).max_tokens_per_generation
    if not trainer.use_vllm and budget:
        longest = max(map(len, prompts)) + cast(int, trainer.max_completion_length)
        if is_collective(trainer):
            # All ranks must cut their prompts into equally many parts.
            longest = max(gather_object([longest]))
        size = max(budget // longest, 1)
        parts = [slice(start, start + size) for start in range(0, len(prompts), size)]
    replies: list[list[int]] = []
    logprobs: list[list[float]] | None = []
    for part in parts:
        with nullcontext() if trainer.use_vllm else _sampling_by_key(trainer, keys[part]):
            sampled, sampled_logprobs = trainer._generate_single_turn(prompts[part], None, {}, 1)  # type: ignore[no-untyped-call]
        replies += [list(ids) for ids in sampled]
        if sampled_logprobs is None or logprobs is None:
            logprobs = None
        else:
            # TRL returns None for a token without a log-probability.
            logprobs += [[float("nan") if p is None else float(p) for p in row] for row in sampled_logprobs]
    return replies[:count], None if logprobs is None else logprobs[:count]


def stop_at(trainer: GRPOTrainer, end_ids: Collection[int]) -> None:
    """Make TRL's generation end a reply at any of `end_ids`, and at no other id."""
    ids = sorted(end_ids)
    trainer.eos_token_ids = ids
    if trainer.use_vllm:
        trainer.vllm_generation.generation_kwargs["stop_token_ids"] = ids
    else:
        trainer.generation_config.eos_token_id = trainer.generation_kwargs["eos_token_id"] = ids


@contextmanager
def sampling(trainer: GRPOTrainer, parameters: Mapping[str, float]) -> Iterator[None]:
    """Set sampling parameters of TRL's generation inside the context."""
    used: Any = vars(trainer.vllm_generation if trainer.use_vllm else trainer.generation_config)
    overriding: dict[str, Any] = {} if trainer.use_vllm else trainer.generation_kwargs
    # Only parameters that each target has already. TRL lets `generation_kwargs` override the config, so both are set.
    previous_values = [
        (target, {name: target[name] for name in parameters if name in target}) for target in (used, overriding)
    ]
    for target, values in previous_values:
        target.update({name: parameters[name] for name in values})
    try:
        yield
    finally:
        for target, values in previous_values:
            target.update(values)


@contextmanager
def generation_session(trainer: GRPOTrainer) -> Iterator[None]:
    """Sync the weights for one rollout's generation, and wake vLLM and put it to sleep again once.

    By default, TRL lets vLLM sleep after every call, and then pushes all weights again.
    """
    if not trainer.use_vllm:
        yield
        return
    engine: Any = trainer.vllm_generation
    sleeps = trainer.vllm_mode == "colocate" and engine.enable_sleep_mode
    shared = trainer.vllm_mode == "server"
    if shared:
        # A rollout that is played ahead: the server may still answer some rank with the old weights.
        trainer.accelerator.wait_for_everyone()
    engine.sync_weights()
    if shared:
        # No rank may send a request before rank 0 has pushed all weights.
        trainer.accelerator.wait_for_everyone()
    # TRL pushes the weights again in its next call if this step is not the current one.
    trainer._last_loaded_step = trainer.state.global_step
    if not sleeps:
        yield
        return
    engine.llm.wake_up(tags=["kv_cache"])
    # TRL would put vLLM to sleep after every call of this rollout.
    engine.enable_sleep_mode = False
    try:
        yield
    finally:
        engine.enable_sleep_mode = True
        engine.llm.sleep(level=2)
        # Level 2 discards the weights. With this flag TRL pushes them again before it generates.
        engine._llm_weights_sleeping = True


def vllm_engine(trainer: GRPOTrainer) -> Any:
    """Return the engine inside TRL's colocated vLLM."""
    engine: Any = trainer.vllm_generation
    return engine.llm.llm_engine


def model_name(trainer: GRPOTrainer) -> str:
    """Return the name under which a server serves the model under training."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    return str(model.config._name_or_path)


# -- forward and backward -----------------------------------------------------------------------------------


def score_with_fused_head(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor], labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probabilities and entropies, shape (B, T - 1), from the LM head that TRL fuses into its models.

    Both are 0 where `labels` (B, T) is -100. A reference model returns no entropies.

    Args:
        inputs: Ids, attention mask and positions, shape (B, T) each.
        labels: Ids of the tokens to score, and -100 elsewhere, shape (B, T).
    """
    output = model(**inputs, labels=labels, fused_lm_head=True)
    return output.log_probs, output.entropy


@contextmanager
def scoring(trainer: GRPOTrainer) -> Iterator[None]:
    """Disable gradients inside the context, and the checkpointing that only they need."""
    model: Any = trainer.model
    options: Any = trainer.args.gradient_checkpointing_kwargs
    with torch.no_grad(), disable_gradient_checkpointing(model, options):
        yield


@contextmanager
def reference_model(trainer: GRPOTrainer, model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the reference model: a separate one, or `model` without its adapter (or with its initial adapter)."""
    if trainer.ref_model is not None:
        yield trainer.ref_model
        return
    peft_model = trainer.accelerator.unwrap_model(trainer.model)
    with use_adapter(peft_model, adapter_name="ref" if "ref" in peft_model.peft_config else None):
        yield model


def check_reference(model: str | PreTrainedModel, beta: float, adapted: bool) -> None:
    """Refuse an in-memory model whose reference TRL could not load. With an adapter, the model is its own reference.

    Args:
        model: Name or folder of a model, or a model.
        beta: Weight of the KL term; 0 needs no reference.
        adapted: True if an adapter is added to the model.
    """
    if not beta or adapted or isinstance(model, str) or is_peft_model(model):
        return
    if not model.config._name_or_path:
        raise ValueError(
            f"beta={beta} loads the reference model from config._name_or_path, which is empty; save the model to a "
            f"folder and pass the folder as model, or set beta=0."
        )


def micro_batch(accelerator: Accelerator, model: torch.nn.Module, is_last: bool) -> AbstractContextManager[Any]:
    """Return the context of a micro-batch's forward and backward pass: only the last one synchronises gradients.

    Args:
        is_last: True for the last micro-batch of an update.
    """
    # accelerate's optimiser and DeepSpeed's engine read this flag. The context below is for DDP. FSDP gets none:
    # without its reduction every rank would hold the whole gradient.
    accelerator.gradient_state._set_sync_gradients(is_last)
    if is_last or accelerator.num_processes == 1 or accelerator.distributed_type == DistributedType.FSDP:
        return nullcontext()
    context: AbstractContextManager[Any] = accelerator.no_sync(model)
    return context


def backward(accelerator: Accelerator, loss: torch.Tensor) -> None:
    """Run the backward pass without scaling, because losses are divided by exact token counts already."""
    # DeepSpeed would divide the loss by its own number of accumulation steps.
    options = {"scale_wrt_gas": False} if accelerator.distributed_type == DistributedType.DEEPSPEED else {}
    accelerator.backward(loss, **options)
