"""What a run needs of memory, disk and time, before anything is loaded. No torch here.

Weights, gradient and optimiser are exact (AdamW; the adapter's under LoRA); activations and logits are of the largest
micro-batch; numbers of steps and tokens are what the limits allow at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from trainer.hardware import USABLE, Hardware, hardware_names
from trainer.hardware import hardware as named_hardware
from trainer.settings import RunSettings
from trainer.shapes import ModelShape

ADAM = 2
"""Numbers that AdamW keeps for each number that is trained."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Of one device in bytes, of the run in bytes, updates and hours."""

    weights: int
    gradient: int
    optimiser: int
    reference: int
    casts: int
    """bf16 copies of float32 weights under autocast, and what shards gather for a layer."""
    cache: int
    """Keys and values of the replies that transformers makes together, or all that vLLM takes."""
    logits: int
    activations: int
    engine_sleeps: bool
    checkpoints: int
    """On the disk at once, with the final model."""
    updates: int
    """At most."""
    hours: float
    """At most, by the rates of the hardware."""

    @property
    def rollout(self) -> int:
        """Most memory while replies are made."""
        return self.weights + self.optimiser + self.reference + self.cache

    @property
    def update(self) -> int:
        """Most memory while the model is trained."""
        held = self.weights + self.gradient + self.optimiser + self.reference + self.casts
        return held + self.logits + self.activations + (0 if self.engine_sleeps else self.cache)

    def told(self) -> dict[str, Any]:
        """The lines of a dry run."""
        names = ("weights", "gradient", "optimiser", "reference", "casts", "cache", "logits", "activations")
        return {name: told_bytes(vars(self)[name]) for name in names} | {
            "peak_in_a_rollout": told_bytes(self.rollout),
            "peak_in_an_update": told_bytes(self.update),
            "checkpoints_on_disk": told_bytes(self.checkpoints),
            "updates_at_most": self.updates,
            "hours_at_most": round(self.hours, 1),
        }


def told_bytes(count: float) -> str:
    """A size in the unit that suits it."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def estimate(config: RunSettings, model: Any, shape: ModelShape, machine: Hardware, steps: int) -> Needs:
    """`model`: fields of `trl.ModelConfig`. `steps`: model calls of a rollout, at most."""
    shards = machine.processes if machine.sharded else 1
    width = _BYTES.get(model.dtype, shape.bytes_kept)
    adapter = shape.adapter(model.lora_r, model.lora_target_modules) if model.use_peft else 0
    base = shape.parameters * width if not (model.load_in_4bit or model.load_in_8bit) else shape.parameters
    trained, each = (adapter, 4) if model.use_peft else (shape.parameters, width)
    mixed = bool(config.bf16 or config.fp16) and width == 4
    replies = config.max_prompt_length + (config.max_completion_length or 1)
    tokens = max(config.max_tokens_per_microbatch, replies)
    work = 2 if width == 2 or mixed else 4
    gathered = 2 * max(shape.layer, shape.vocab * shape.hidden) * work if machine.sharded else 0
    checkpoint = (adapter * 4 if model.use_peft else shape.parameters * width) + ADAM * trained * each
    updates = _updates(config, steps)
    saves = ceil(updates / max(config.save_steps, 1)) if config.save_strategy != "no" else 0
    kept = min(saves, config.save_total_limit + 1) if config.save_total_limit else saves  # one more while it is written
    return Needs(
        weights=base // shards + adapter * 4,
        gradient=trained * each // shards,
        optimiser=ADAM * trained * each // shards,
        reference=base // shards if config.beta and not model.use_peft else 0,
        casts=gathered if machine.sharded else shape.parameters * 2 if mixed else 0,
        cache=_cache(config, shape, machine, replies, work),
        logits=_logits(config, shape, tokens),
        activations=_activations(shape, tokens, work, bool(config.gradient_checkpointing)),
        engine_sleeps=not config.use_vllm or config.vllm_enable_sleep_mode,
        checkpoints=kept * checkpoint + (checkpoint - ADAM * trained * each),
        updates=updates,
        hours=_hours(config, shape, machine, steps, replies),
    )


def _updates(config: RunSettings, steps: int) -> int:
    if config.max_rollouts is None:
        return config.max_steps
    return min(config.max_rollouts * config.updates_of(steps), config.max_steps)


def _cache(config: RunSettings, shape: ModelShape, machine: Hardware, replies: int, width: int) -> int:
    if config.use_vllm:
        return int(config.vllm_gpu_memory_utilization * machine.memory) if config.vllm_mode == "colocate" else 0
    together = config.per_device_train_batch_size * replies
    if config.backend == "trl" and config.max_tokens_per_generation:
        together = min(together, max(config.max_tokens_per_generation, replies))
    return together * shape.cache_numbers * width


def _logits(config: RunSettings, shape: ModelShape, tokens: int) -> int:
    """TRL's head makes them tile by tile; what is constrained to legal words needs all of them, thrice in float32."""
    if config.constrained or config.uniform_legal_coef:
        return 3 * tokens * shape.vocab * 4
    return min(tokens, 4096) * min(shape.vocab, 8192) * 4


def _activations(shape: ModelShape, tokens: int, width: int, checkpointed: bool) -> int:
    """Inputs of all layers and the inside of one, or of all without checkpointing; attention keeps no scores."""
    inside = sum(inputs + outputs for inputs, outputs in shape.products.values()) + 6 * shape.hidden
    layers = 1 if checkpointed else shape.layers
    return tokens * width * (shape.layers * shape.hidden + layers * inside)


def _hours(config: RunSettings, shape: ModelShape, machine: Hardware, steps: int, replies: int) -> float:
    """Sampling all replies, scores by the old and the reference model (a third of a pass each), one pass of updates."""
    scale = shape.parameters / 4e9 / 3600
    passes = 1 + (1 + bool(config.beta)) / 3
    sampled = steps * (config.max_completion_length or 1) / (machine.generate * machine.processes)
    trained = steps * replies * passes / (machine.train * machine.processes)
    rollouts = config.max_rollouts or config.max_steps / config.updates_of(steps)
    return rollouts * (sampled + trained) * scale


def refusal(found: Needs, config: RunSettings, model: Any, shape: ModelShape, machine: Hardware) -> str | None:
    """Why the run does not fit, with what to do; None where it does."""
    room = int(machine.memory * USABLE)
    needs = max(found.rollout, found.update)
    if config.use_vllm and config.vllm_mode == "colocate":
        least = shape.parameters * 2 + (config.vllm_max_model_length or 0) * shape.cache_numbers * 2
        if found.cache < least:
            share = least / machine.memory
            return (
                f"vLLM needs {told_bytes(least)} for its weights and one reply, and "
                f"vllm_gpu_memory_utilization={config.vllm_gpu_memory_utilization} gives it {told_bytes(found.cache)}; "
                f"set it to {share + 0.02:.2f} or more."
            )
    if needs <= room:
        return None
    return (
        f"the run needs {told_bytes(needs)} on each device, and {machine.name} has {told_bytes(machine.memory)}, "
        f"{told_bytes(room)} of them for use; {_remedy(found, config, model, machine)}."
    )


def _remedy(found: Needs, config: RunSettings, model: Any, machine: Hardware) -> str:
    ways = [] if model.use_peft else ["an adapter (--use_peft true --dtype bfloat16)"]
    if found.rollout > found.update:
        name = "vllm_gpu_memory_utilization" if config.use_vllm else "max_tokens_per_generation"
        ways.append(f"a smaller --{name}")
    elif found.activations + found.logits > found.update / 5:
        ways.append("a smaller --max_tokens_per_microbatch and max_completion_length")
    room = machine.processes * machine.memory
    larger = [one.name for one in map(named_hardware, hardware_names()) if one.processes * one.memory > room]
    ways += [f"--hardware {larger[0]}"] if larger else []
    return "try " + ", or ".join([*ways, "a smaller model"])


def most_steps(facts: Mapping[str, int], meta_episodes: int) -> int:
    """Model calls of a rollout at most: every episode to its last turn, and a reflection before each but the first."""
    episodes = facts["num_episodes"]
    return meta_episodes * (episodes * facts["turns"] + (episodes - 1) * facts["reflections"])
