"""Every private name of TRL and of transformers' Trainer that this package touches, and nothing else.

Read in trl 1.16.0, transformers 5.17.0 and accelerate 1.15.0.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, gather_object, is_peft_model
from datasets import Dataset
from packaging.version import Version
from torch.distributed.tensor import DTensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel
from trl import __version__ as trl_version
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import use_adapter

from mage_envs.randomness import UInt64s, uniforms
from trainer.local_model import Sampling, distribution, draw

SUPPORTED = "trl>=1.16,<2"
_METHODS = ("_generate_single_turn",)


def _on_numbered_cpu(storage: Any, location: str) -> Any:
    """Among several CPU processes accelerate calls the device `cpu:0`, to which torch by itself loads no optimizer."""
    return storage if location.startswith("cpu:") else None


torch.serialization.register_package(9, lambda _: None, _on_numbered_cpu)


def check_trl(version: str = trl_version) -> None:
    """Raises `ImportError` where TRL is outside the range, or has lost a name that is used here."""
    lost = [name for name in _METHODS if name not in vars(GRPOTrainer)]
    if not Version("1.16") <= Version(version) < Version("2") or lost:
        cause = f"lacks {', '.join(lost)}" if lost else "is outside the supported range"
        raise ImportError(f"trl {version} {cause}; install the supported one with: pip install '{SUPPORTED}'.")


def check_model(model: Any) -> None:
    """Refuses models that left padding would harm: rows are right-aligned, so positions must be given."""
    model = model.get_base_model() if is_peft_model(model) else model
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise ValueError(
            f"{type(model).__name__}.forward takes no position_ids, and rows are padded on the left; "
            f"use a causal language model with rotary positions."
        )


def check_precision(trainer: GRPOTrainer) -> None:
    """Refuse to train weights in 16 bits, which hold three decimal digits: most updates would change nothing.

    Under FSDP and DeepSpeed, mixed precision keeps a copy in float32, which is what the optimiser changes.
    """
    args: Any = trainer.args
    if (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled) and (args.bf16 or args.fp16):
        return
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    half = [weight for weight in trained if weight.dtype in (torch.bfloat16, torch.float16)]
    if half:
        few, all_ = (sum(weight.numel() for weight in some) for some in (half, trained))
        raise ValueError(
            f"{few} of {all_} trained weights are {str(half[0].dtype).removeprefix('torch.')}, in which updates at "
            f"learning_rate={args.learning_rate:g} round to nothing; load the model with --dtype float32 (bf16=True "
            f"computes in bfloat16 all the same), or train an adapter (--use_peft true)."
        )


def no_reward(**_: object) -> list[float | None]:
    """Satisfies `GRPOTrainer.__init__`; rewards come from the environment."""
    raise RuntimeError("MAGETrainer takes rewards from the environment.")


def placeholder_dataset(rows: int = 1) -> Dataset:
    """Satisfies `GRPOTrainer.__init__`; `index` numbers the rows."""
    return Dataset.from_dict({"prompt": [""] * rows, "index": list(range(rows))})


def record(trainer: GRPOTrainer, mode: str, metrics: Mapping[str, float], replace: bool = False) -> None:
    """Adds values to what TRL averages into the next log line of `mode` (`train` or `eval`)."""
    for key, value in metrics.items():
        if replace:
            trainer._metrics[mode][key].clear()
        trainer._metrics[mode][key].append(value)


# -- generation ---------------------------------------------------------------------------------------------


def is_collective(trainer: GRPOTrainer) -> bool:
    """Whether all ranks must generate together."""
    sharded = trainer.use_vllm or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    return bool(sharded and trainer.accelerator.num_processes > 1)


def is_sharded(trainer: GRPOTrainer) -> bool:
    """Whether a process holds a part of the weights alone."""
    return bool(trainer.is_fsdp_enabled or _zero_3(trainer) is not None)


def _zero_3(trainer: GRPOTrainer) -> Mapping[str, Any] | None:
    """The settings of DeepSpeed's ZeRO-3; None where weights are not in its shards."""
    plugin = trainer.accelerator.state.deepspeed_plugin if trainer.is_deepspeed_enabled else None
    return plugin.deepspeed_config["zero_optimization"] if plugin is not None and plugin.zero_stage == 3 else None


def local_weights(trainer: GRPOTrainer) -> Iterator[torch.Tensor]:
    """What this process holds of each weight."""
    parted = _zero_3(trainer) is not None
    for weight in trainer.accelerator.unwrap_model(trainer.model).parameters():
        held = cast(Any, weight).ds_tensor if parted else weight.detach()
        yield held.to_local() if isinstance(held, DTensor) else held


def check_whole_model(trainer: GRPOTrainer) -> None:
    """Refuses DeepSpeed's ZeRO-3 where it would write no model, but shards of a checkpoint in its place."""
    gathers, settings = "stage3_gather_16bit_weights_on_model_save", _zero_3(trainer)
    if settings is not None and not settings.get(gathers):
        raise ValueError(
            f"DeepSpeed's ZeRO-3 would leave no whole model; set {gathers}: true in its zero_optimization."
        )


class _KeyedSampling(LogitsProcessor):
    """Draws each row's token from the row's own stream, and leaves the sampler of transformers no other choice.

    That sampler draws from torch's global generator, which an environment or an opponent in this process can seed.
    """

    def __init__(self, sampling: Sampling, keys: UInt64s) -> None:
        self._sampling, self._keys = sampling, keys
        self._drawn = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        ids, _ = draw(distribution(scores, self._sampling, None), uniforms(self._keys, self._drawn))
        self._drawn += 1
        chosen = torch.from_numpy(ids).to(scores.device)[:, None]
        return torch.full_like(scores, -torch.inf).scatter(1, chosen, 0.0)


@contextmanager
def _sampling_by_key(trainer: GRPOTrainer, keys: UInt64s) -> Iterator[None]:
    """Within it, transformers samples row n of a batch by the stream `keys[n]`, as TRL's generation is configured."""
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
    """Return replies by TRL's own generation; ranks that must send equally many prompts send filler.

    transformers samples each reply by its key, and gets as many prompts together as `max_tokens_per_generation` has
    room for, replies at their longest. vLLM samples by the streams of its engine.
    """
    count = len(prompts)
    if is_collective(trainer):
        most = max(gather_object([count]))
        prompts = prompts + [prompts[0]] * (most - count)
        keys = np.pad(keys, (0, most - count))
    parts = [slice(0, len(prompts))]
    budget = cast(Any, trainer.args).max_tokens_per_generation
    if not trainer.use_vllm and budget:
        longest = max(map(len, prompts)) + cast(int, trainer.max_completion_length)
        if is_collective(trainer):
            longest = max(gather_object([longest]))  # all ranks cut alike
        size = max(budget // longest, 1)
        parts = [slice(start, start + size) for start in range(0, len(prompts), size)]
    replies: list[list[int]] = []
    logprobs: list[list[float]] | None = []
    for part in parts:
        with nullcontext() if trainer.use_vllm else _sampling_by_key(trainer, keys[part]):
            sampled, known = trainer._generate_single_turn(prompts[part], None, {}, 1)  # type: ignore[no-untyped-call]
        replies += [list(ids) for ids in sampled]
        if known is None or logprobs is None:
            logprobs = None
        else:
            logprobs += [[float("nan") if p is None else float(p) for p in row] for row in known]
    return replies[:count], None if logprobs is None else logprobs[:count]


def stop_at(trainer: GRPOTrainer, end_ids: Collection[int]) -> None:
    """Make TRL's generation end a reply at any of `end_ids`, not only at those that the model's settings name."""
    ids = sorted(end_ids)
    trainer.eos_token_ids = ids
    if trainer.use_vllm:
        trainer.vllm_generation.generation_kwargs["stop_token_ids"] = ids
    else:
        trainer.generation_config.eos_token_id = trainer.generation_kwargs["eos_token_id"] = ids


@contextmanager
def sampling(trainer: GRPOTrainer, chosen: Mapping[str, float]) -> Iterator[None]:
    """Within it TRL's generation has these sampling parameters."""
    used: Any = vars(trainer.vllm_generation if trainer.use_vllm else trainer.generation_config)
    overriding: dict[str, Any] = {} if trainer.use_vllm else trainer.generation_kwargs
    before = [(held, {name: held[name] for name in chosen if name in held}) for held in (used, overriding)]
    for held, kept in before:
        held.update({name: chosen[name] for name in kept})
    try:
        yield
    finally:
        for held, kept in before:
            held.update(kept)


@contextmanager
def generation_session(trainer: GRPOTrainer) -> Iterator[None]:
    """One rollout's generation: weights are synced, and vLLM woken and put to sleep again, once.

    Left to itself TRL lets vLLM sleep after every call, and then pushes all weights again.
    """
    if not trainer.use_vllm:
        yield
        return
    engine: Any = trainer.vllm_generation
    sleeps = trainer.vllm_mode == "colocate" and engine.enable_sleep_mode
    shared = trainer.vllm_mode == "server"
    if shared:
        trainer.accelerator.wait_for_everyone()  # no rank is still being answered, for a rollout that is played ahead
    engine.sync_weights()
    if shared:
        trainer.accelerator.wait_for_everyone()  # no rank asks the server before rank 0 has pushed all weights
    trainer._last_loaded_step = trainer.state.global_step
    if not sleeps:
        yield
        return
    engine.llm.wake_up(tags=["kv_cache"])
    engine.enable_sleep_mode = False
    try:
        yield
    finally:
        engine.enable_sleep_mode = True
        engine.llm.sleep(level=2)
        engine._llm_weights_sleeping = True


def vllm_engine(trainer: GRPOTrainer) -> Any:
    """The engine inside TRL's colocated vLLM."""
    engine: Any = trainer.vllm_generation
    return engine.llm.llm_engine


def model_name(trainer: GRPOTrainer) -> str:
    """The name under which a server holds the model that is trained."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    return str(model.config._name_or_path)


# -- forward and backward -----------------------------------------------------------------------------------


def fused_scores(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor], labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities and entropies (B, T - 1) by the LM head that TRL fuses into its models.

    Both are 0 where `labels` (B, T) is -100; a reference model gives no entropies.
    """
    output = model(**inputs, labels=labels, fused_lm_head=True)
    return output.log_probs, output.entropy


@contextmanager
def scoring(trainer: GRPOTrainer) -> Iterator[None]:
    """Without gradients, and without the checkpointing that only they need."""
    model: Any = trainer.model
    options: Any = trainer.args.gradient_checkpointing_kwargs
    with torch.no_grad(), disable_gradient_checkpointing(model, options):
        yield


@contextmanager
def reference_model(trainer: GRPOTrainer, model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The reference: a model of its own, or `model` without its adapter (or with the adapter it started from)."""
    if trainer.ref_model is not None:
        yield trainer.ref_model
        return
    peft_model = trainer.accelerator.unwrap_model(trainer.model)
    with use_adapter(peft_model, adapter_name="ref" if "ref" in peft_model.peft_config else None):
        yield model


def check_reference(model: str | PreTrainedModel, beta: float, adapted: bool) -> None:
    """Refuses an in-memory model whose reference TRL could not load; an adapted one is its own reference."""
    if not beta or adapted or isinstance(model, str) or is_peft_model(model):
        return
    if not model.config._name_or_path:
        raise ValueError(
            f"beta={beta} loads the reference model from config._name_or_path, which is empty; save the model to a "
            f"folder and pass the folder as model, or set beta=0."
        )


def micro_batch(accelerator: Accelerator, model: torch.nn.Module, last: bool) -> AbstractContextManager[Any]:
    """Around each micro-batch's forward and backward: only the last one synchronises gradients."""
    accelerator.gradient_state._set_sync_gradients(last)
    if last or accelerator.num_processes == 1 or accelerator.distributed_type == DistributedType.FSDP:
        return nullcontext()
    context: AbstractContextManager[Any] = accelerator.no_sync(model)
    return context


def backward(accelerator: Accelerator, loss: torch.Tensor) -> None:
    """The backward pass, unscaled: losses are divided by exact token counts already."""
    options = {"scale_wrt_gas": False} if accelerator.distributed_type == DistributedType.DEEPSPEED else {}
    accelerator.backward(loss, **options)
