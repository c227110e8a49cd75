"""Sampling parameters of evaluations, for every backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from trl.trainer.grpo_trainer import GRPOTrainer

from trainer.backends.cached import CachedGenerator
from trainer.backends.generation import LockStepGenerator
from trainer.backends.play_settings import PlaySettings
from trainer.backends.vllm_server import StreamingServerGenerator
from trainer.backends.vllm_stream import StreamingVLLMGenerator
from trainer.config.run_settings import RunSettings
from trainer.trl import trl_compat
from trainer.trl.backend_registry import AnyGenerator

PAPER = (0.7, 0.8, 20)
"""Temperature, top-p and top-k of the paper's evaluations."""


def evaluation_sampling(played: PlaySettings | None, config: RunSettings) -> tuple[float, float, int]:
    """Return temperature, top-p and top-k of an evaluation.

    Each is the configured one, else the paper's under its protocol, else that of training.
    """
    paper = played is not None and played.env_kwargs.get("protocol") == "paper"
    temperature, top_p, top_k = PAPER if paper else (config.temperature, 1.0, 0)
    return (
        temperature if config.eval_temperature is None else config.eval_temperature,
        top_p if config.eval_top_p is None else config.eval_top_p,
        top_k if config.eval_top_k is None else config.eval_top_k,
    )


@contextmanager
def sampled_as(
    trainer: GRPOTrainer, generator: AnyGenerator, temperature: float, top_p: float, top_k: int
) -> Iterator[None]:
    """Set the sampling parameters of the trainer's backend inside the context. A scripted backend stays as it is.

    Args:
        trainer: The trainer.
        generator: Its backend.
        temperature: Temperature of the softmax.
        top_p: Probability mass to sample from; 1 samples from all tokens.
        top_k: Number of tokens to sample from; 0 samples from all tokens.
    """
    chosen = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    # Each kind of backend stores its sampling parameters elsewhere.
    if isinstance(generator, CachedGenerator):
        before = generator.sampling
        generator.sampling = replace(before, **chosen)  # type: ignore[arg-type]
        try:
            yield
        finally:
            generator.sampling = before
    elif isinstance(generator, StreamingVLLMGenerator | StreamingServerGenerator):
        kept = generator.settings
        generator.settings = replace(kept, **chosen)  # type: ignore[arg-type]
        try:
            yield
        finally:
            generator.settings = kept
    elif isinstance(generator, LockStepGenerator):
        with trl_compat.sampling(trainer, chosen):
            yield
    else:
        yield
