"""Rollout backends by name, which `MAGEConfig.backend` selects. Each function creates a generator from a trainer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from trl.chat_template_utils import get_training_chat_template
from trl.trainer.grpo_trainer import GRPOTrainer

from mage_envs.text.generation import Generator, StreamingGenerator
from mage_envs.trainer.backends.cached import CachedGenerator, CopiedGenerator, copy_model
from mage_envs.trainer.backends.generation import LockStepGenerator
from mage_envs.trainer.backends.local_model import Sampling
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat
from mage_envs.trainer.backends.vllm_server import StreamingServerGenerator
from mage_envs.trainer.backends.vllm_stream import RequestSettings, StreamingVLLMGenerator
from mage_envs.trainer.config.fields import RunFields
from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.trl import trl_compat

AnyGenerator = Generator | StreamingGenerator
_log = logging.getLogger(__name__)
NO_LIMIT = 7 * 86_400.0
"""Timeout in seconds of a request to vLLM if there is no limit (7 days), because a socket accepts no infinity."""


def fit_prompt_limit(trainer: GRPOTrainer) -> None:
    """Check that a prompt and its reply fit into the model's positions; if not, lower the default prompt limit.

    Raises ValueError if the user set the limit.
    """
    args = cast(MAGEConfig, trainer.args)
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    positions = model.config.get_text_config().to_dict().get("max_position_embeddings")
    reply = cast(int, args.max_completion_length)
    if positions is None or args.max_prompt_length + reply <= positions:
        return
    room = positions - reply
    if room < 1 or args.max_prompt_length != RunFields.max_prompt_length:
        raise ValueError(
            f"max_prompt_length={args.max_prompt_length} and max_completion_length={reply} do not fit into the model's "
            f"{positions} positions (max_position_embeddings). Lower one of them."
        )
    _log.warning("max_prompt_length is lowered from its default to %d: the model has %d positions.", room, positions)
    args.max_prompt_length = room


def keep_earlier_thinking(trainer: GRPOTrainer) -> None:
    """Replace the tokenizer's chat template, and log it, if the template strips thoughts from earlier replies.

    A conversation is trained on the ids that were sampled, thoughts included. The template is saved with the model, so
    that a chat API renders the same ids. It changes no prompt of the training.
    """
    tokenizer: Any = trainer.processing_class
    if not ChatTokenizer(tokenizer).reply_format.strips_thoughts:
        return
    try:
        template = get_training_chat_template(tokenizer)
    except ValueError:
        template = None
    if template is None:
        _log.warning(
            "The chat template strips earlier <think> blocks, and TRL has no other for it: a chat API will not render "
            "conversations as they are trained."
        )
        return
    tokenizer.chat_template = template
    _log.warning(
        "The chat template strips earlier <think> blocks; TRL's training template replaces it in the saved model."
    )


def prompt_format(trainer: GRPOTrainer) -> PromptFormat:
    """Return the prompt format of a run, with every end id that its model and its tokenizer declare."""
    args = cast(MAGEConfig, trainer.args)
    run_format = PromptFormat(
        chat_template_kwargs=cast(Any, args.chat_template_kwargs) or {},
        system_prompt=args.system_prompt,
        end_ids=tuple(trainer.eos_token_ids),
        max_prompt_length=args.max_prompt_length,
        date=args.prompt_date,
    )
    ends = ChatTokenizer(cast(Any, trainer.processing_class), run_format).end_ids
    return replace(run_format, end_ids=tuple(sorted(ends)))


def chat_tokenizer(trainer: GRPOTrainer) -> ChatTokenizer:
    """Return the trainer's tokenizer, with the prompt format of the run."""
    return ChatTokenizer(cast(Any, trainer.processing_class), prompt_format(trainer))


def trl_generator(trainer: GRPOTrainer) -> LockStepGenerator:
    """Return TRL's own generation: transformers, sampling keyed by `args.seed`, or lock-step vLLM if `use_vllm`."""
    args, tokens = cast(MAGEConfig, trainer.args), chat_tokenizer(trainer)
    # By itself TRL stops only at the end ids of the model's own settings.
    trl_compat.stop_at(trainer, tokens.end_ids)
    return LockStepGenerator(
        tokens=tokens,
        generate_ids=lambda prompts, keys: trl_compat.generate_ids(trainer, prompts, keys),
        max_prompt_length=args.max_prompt_length,
        max_new_tokens=cast(int, args.max_completion_length),
        collective=trl_compat.is_collective(trainer),
        seed=args.seed,
    )


def make_cached_generator(trainer: GRPOTrainer) -> CachedGenerator:
    """Return a generator that runs the model itself and caches conversations; sampling is keyed by `args.seed`."""
    if trl_compat.is_sharded(trainer):
        raise ValueError(
            'backend="cached" needs the whole model in each process, but FSDP and ZeRO-3 shard it. Use backend="trl".'
        )
    args = cast(MAGEConfig, trainer.args)
    sampling = Sampling(
        cast(int, args.max_completion_length), args.temperature, constrained=args.constrained, seed=args.seed
    )
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    tokens = chat_tokenizer(trainer)
    # A rollout played ahead samples while the optimiser changes the weights, so it needs a copy of them.
    if args.rollout_ahead:
        return CopiedGenerator(copy_model(model), tokens, sampling, args.max_prompt_length)
    return CachedGenerator(model, tokens, sampling, args.max_prompt_length)


def vllm_stream(trainer: GRPOTrainer) -> StreamingGenerator:
    """Return streaming vLLM, colocated or a server: each meta-episode continues when its own reply arrives."""
    args, tokens = cast(MAGEConfig, trainer.args), chat_tokenizer(trainer)
    settings = RequestSettings(
        max_new_tokens=cast(int, args.max_completion_length),
        temperature=args.temperature,
        max_prompt_length=args.max_prompt_length,
        seed=args.seed,
        timeout=args.model_timeout or NO_LIMIT,
    )
    if args.vllm_mode == "colocate":
        return StreamingVLLMGenerator(trl_compat.vllm_engine(trainer), tokens, settings)
    url = args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    return StreamingServerGenerator(url, trl_compat.model_name(trainer), tokens, settings)


BACKENDS: Mapping[str, Callable[[GRPOTrainer], AnyGenerator]] = {
    "trl": trl_generator,
    "cached": make_cached_generator,
    "vllm_stream": vllm_stream,
}
"""Backends by the value of `MAGEConfig.backend`."""
