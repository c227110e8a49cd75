"""Estimate of a run's memory, disk space and time, before anything is loaded. No torch here.

Weights, gradient and optimiser are exact (AdamW; those of the adapter with LoRA). Activations and logits are those of
the largest micro-batch. Numbers of steps and tokens are upper bounds from the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from mage_envs.trainer.config.hardware import USABLE, Hardware, hardware_names
from mage_envs.trainer.config.hardware import hardware as named_hardware
from mage_envs.trainer.config.model_shapes import ModelShape
from mage_envs.trainer.config.run_settings import RunSettings

ADAM = 2
"""Numbers that AdamW stores per trained weight (first and second moment)."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Needs of one device in bytes, and of the whole run in bytes, updates and hours."""

    weights: int
    gradient: int
    optimiser: int
    reference: int
    casts: int
    """Bytes of the bf16 copies of float32 weights under autocast, or of the layers that shards gather."""
    cache: int
    """Bytes of keys and values of the replies that transformers generates together, or all memory of vLLM."""
    logits: int
    activations: int
    engine_sleeps: bool
    """True if the cache uses no memory during updates."""
    checkpoints: int
    """Bytes on the disk at the same time, with the final model."""
    updates: int
    """Upper bound of the optimiser steps."""
    hours: float
    """Upper bound of the duration in hours, by the rates of the hardware."""

    @property
    def rollout(self) -> int:
        """Return the peak memory of a rollout, in bytes per device."""
        return self.weights + self.optimiser + self.reference + self.cache

    @property
    def update(self) -> int:
        """Return the peak memory of an update, in bytes per device."""
        state = self.weights + self.gradient + self.optimiser + self.reference + self.casts
        return state + self.logits + self.activations + (0 if self.engine_sleeps else self.cache)

    def to_text(self) -> dict[str, Any]:
        """Return the values that a dry run prints, by name."""
        names = ("weights", "gradient", "optimiser", "reference", "casts", "cache", "logits", "activations")
        return {name: format_bytes(vars(self)[name]) for name in names} | {
            "peak_in_a_rollout": format_bytes(self.rollout),
            "peak_in_an_update": format_bytes(self.update),
            "checkpoints_on_disk": format_bytes(self.checkpoints),
            "updates_at_most": self.updates,
            "hours_at_most": round(self.hours, 1),
        }


def format_bytes(count: float) -> str:
    """Format a size in bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def estimate(config: RunSettings, model: Any, shape: ModelShape, machine: Hardware, steps: int) -> Requirements:
    """Estimate the needs of a run.

    Args:
        model: Fields of `trl.ModelConfig`.
        steps: Upper bound of the model calls of a rollout.

    Returns:
        The needs, with sizes in bytes per device.
    """
    # FSDP2 shards weights, gradient and optimiser over all devices.
    shards = machine.processes if machine.sharded else 1
    width = _BYTES.get(model.dtype, shape.bytes_kept)
    adapter = shape.adapter(model.lora_r, model.lora_target_modules) if model.use_peft else 0
    # A quantised model counts one byte per parameter, an upper bound for 4 bits.
    base = shape.parameters * width if not (model.load_in_4bit or model.load_in_8bit) else shape.parameters
    trained, bytes_per_weight = (adapter, 4) if model.use_peft else (shape.parameters, width)
    mixed = bool(config.bf16 or config.fp16) and width == 4
    # A row is at most one prompt with its reply. It is forwarded even if it exceeds the limit of a micro-batch.
    replies = config.max_prompt_length + (config.max_completion_length or 1)
    tokens = max(config.max_tokens_per_microbatch, replies)
    work = 2 if width == 2 or mixed else 4
    # Assumes that at most two of the largest units (a layer, or the embedding) are gathered at the same time.
    gathered = 2 * max(shape.layer, shape.vocab * shape.hidden) * work if machine.sharded else 0
    casts = 0
    if machine.sharded:
        casts = gathered
    elif mixed:
        casts = shape.parameters * 2
    checkpoint = (adapter * 4 if model.use_peft else shape.parameters * width) + ADAM * trained * bytes_per_weight
    updates = _updates(config, steps)
    saves = ceil(updates / max(config.save_steps, 1)) if config.save_strategy != "no" else 0
    # One more than the limit, because the oldest checkpoint is removed only after the newest is complete.
    num_checkpoints = min(saves, config.save_total_limit + 1) if config.save_total_limit else saves
    return Requirements(
        weights=base // shards + adapter * 4,
        gradient=trained * bytes_per_weight // shards,
        optimiser=ADAM * trained * bytes_per_weight // shards,
        reference=base // shards if config.beta and not model.use_peft else 0,
        casts=casts,
        cache=_cache(config, shape, machine, replies, work),
        logits=_logits(config, shape, tokens),
        activations=_activations(shape, tokens, work, bool(config.gradient_checkpointing)),
        engine_sleeps=not config.use_vllm or config.vllm_enable_sleep_mode,
        # The final model has no optimiser state.
        checkpoints=num_checkpoints * checkpoint + (checkpoint - ADAM * trained * bytes_per_weight),
        updates=updates,
        hours=run_hours(config, shape, machine, steps, config.max_prompt_length, config.max_completion_length or 1),
    )


def _updates(config: RunSettings, steps: int) -> int:
    """Return an upper bound of the optimiser steps of the run."""
    if config.max_rollouts is None:
        return config.max_steps
    return min(config.max_rollouts * config.updates_of(steps), config.max_steps)


def _cache(config: RunSettings, shape: ModelShape, machine: Hardware, replies: int, width: int) -> int:
    """Return the bytes of the key-value cache on a device; `replies` counts the tokens of a prompt and its reply."""
    # vLLM reserves its share of the memory at once. A vLLM server has devices of its own.
    if config.use_vllm:
        return int(config.vllm_gpu_memory_utilization * machine.memory) if config.vllm_mode == "colocate" else 0
    together = config.per_device_train_batch_size * replies
    if config.backend == "trl" and config.max_tokens_per_generation:
        together = min(together, max(config.max_tokens_per_generation, replies))
    return together * shape.cache_numbers * width


def _logits(config: RunSettings, shape: ModelShape, tokens: int) -> int:
    """Return the bytes of the logits of a micro-batch."""
    # A loss over legal words needs the logits of the whole vocabulary, three times in float32. Without it, TRL's fused
    # head computes them in tiles.
    if config.constrained or config.uniform_legal_coef:
        return 3 * tokens * shape.vocab * 4
    return min(tokens, 4096) * min(shape.vocab, 8192) * 4


def _activations(shape: ModelShape, tokens: int, width: int, checkpointed: bool) -> int:
    """Return the bytes of the activations: inputs of all layers, and the inside of one (all without checkpointing)."""
    # Attention scores are not counted, because fused attention does not store them.
    inside = sum(inputs + outputs for inputs, outputs in shape.products.values()) + 6 * shape.hidden
    layers = 1 if checkpointed else shape.layers
    return tokens * width * (shape.layers * shape.hidden + layers * inside)


def run_hours(
    config: RunSettings, shape: ModelShape, machine: Hardware, calls: float, prompt: float, reply: float
) -> float:
    """Return the hours of a run: sampling of all replies, scoring, and one pass of updates.

    Args:
        calls: Model calls of a rollout.
    """
    # The rates of the hardware are those of a model with 4e9 parameters. A forward pass for the old or the reference
    # log-probabilities costs a third of a forward and backward pass.
    scale = shape.parameters / 4e9 / 3600
    passes = 1 + (1 + bool(config.beta)) / 3
    sampled = calls * reply / (machine.generate * machine.processes)
    trained = calls * (prompt + reply) * passes / (machine.train * machine.processes)
    rollouts = config.max_rollouts or config.max_steps / config.updates_of(ceil(calls))
    return rollouts * (sampled + trained) * scale


def refusal(
    requirements: Requirements, config: RunSettings, model: Any, shape: ModelShape, machine: Hardware
) -> str | None:
    """Return the reason why the run does not fit, with a remedy.

    Args:
        model: Fields of `trl.ModelConfig`.

    Returns:
        One sentence, or None if the run fits.
    """
    room = int(machine.memory * USABLE)
    needs = max(requirements.rollout, requirements.update)
    if config.use_vllm and config.vllm_mode == "colocate":
        # Weights in bf16, and the cache of one sequence of full length.
        minimum = shape.parameters * 2 + (config.vllm_max_model_length or 0) * shape.cache_numbers * 2
        if requirements.cache < minimum:
            share = minimum / machine.memory
            return (
                f"vLLM needs {format_bytes(minimum)} for its weights and one reply, and "
                f"vllm_gpu_memory_utilization={config.vllm_gpu_memory_utilization} gives it "
                f"{format_bytes(requirements.cache)}; set it to {share + 0.02:.2f} or more."
            )
    if needs <= room:
        return None
    return (
        f"the run needs {format_bytes(needs)} on each device, and {machine.name} has {format_bytes(machine.memory)}, "
        f"{format_bytes(room)} of them for use; {_remedy(requirements, config, model, machine)}."
    )


def _remedy(requirements: Requirements, config: RunSettings, model: Any, machine: Hardware) -> str:
    """Return the advice that ends a refusal."""
    ways = [] if model.use_peft else ["an adapter (--use_peft true --dtype bfloat16)"]
    if requirements.rollout > requirements.update:
        name = "vllm_gpu_memory_utilization" if config.use_vllm else "max_tokens_per_generation"
        ways.append(f"a smaller --{name}")
    elif requirements.activations + requirements.logits > requirements.update / 5:
        ways.append("a smaller --max_tokens_per_microbatch and max_completion_length")
    room = machine.processes * machine.memory
    larger = [
        candidate.name
        for candidate in map(named_hardware, hardware_names())
        if candidate.processes * candidate.memory > room
    ]
    ways += [f"--hardware {larger[0]}"] if larger else []
    return "try " + ", or ".join([*ways, "a smaller model"])


def most_steps(facts: Mapping[str, int], meta_episodes: int) -> int:
    """Return an upper bound of a rollout's model calls: all turns, and reflections before episodes after the first."""
    episodes = facts["num_episodes"]
    return meta_episodes * (episodes * facts["turns"] + (episodes - 1) * facts["reflections"])
