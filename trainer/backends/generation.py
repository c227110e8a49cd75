"""A lock-step backend around a function of ids, which needs no torch, and shared code of all backends.

A lock-step backend is a `Generator` of `mage_envs.text.generation`; a streaming one is a `StreamingGenerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mage_envs.random.streams import UInt64s, fold_all
from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.tokens import ChatTokenizer, make_completion

GenerateIds = Callable[[list[list[int]], UInt64s], tuple[list[list[int]], list[list[float]] | None]]
"""Function from prompt ids and the keys of their sampling streams to sampled ids and, if known, log-probabilities.

It must answer every prompt, in order.
"""

_MASK = 0xFFFFFFFFFFFFFFFF
"""Mask of 64 bits."""


def stream_keys(seeds: Sequence[tuple[int, ...]], base: int = 0) -> UInt64s:
    """Return one stream key (n,) per sampling seed. Seeds may differ in length and contain any integers."""
    if not all(seeds):
        raise ValueError(
            "A Prompt has no seed, so its sampling has no key. Pass Prompt(seed=...), or use temperature 0."
        )
    keys = np.zeros(len(seeds), np.uint64)
    # `fold_all` folds the columns of a rectangular array, so seeds of equal length are folded together.
    by_length: dict[int, list[int]] = {}
    for row, seed in enumerate(seeds):
        by_length.setdefault(len(seed), []).append(row)
    for rows in by_length.values():
        # Python's integers may be negative or exceed 64 bits.
        parts = [[base & _MASK, *(part & _MASK for part in seeds[row])] for row in rows]
        keys[rows] = fold_all(np.array(parts, np.uint64))
    return keys


@dataclass(eq=False)
class LockStepGenerator:
    """Generator that answers whole batches by a function of ids (TRL's generation, colocated vLLM, or any other)."""

    tokens: ChatTokenizer
    """Tokenizer with the prompt format."""
    generate_ids: GenerateIds
    """Function that samples replies to prompt ids."""
    max_prompt_length: int | None = None
    """Prompt limit in tokens; None disables it. A longer prompt returns `overflow`."""
    max_new_tokens: int = 1
    """Reply limit in tokens."""
    collective: bool = False
    """True if generation is collective over ranks (tensor parallelism, ZeRO-3, FSDP). Every call of `generate` is then
    exactly one call of `generate_ids`."""
    seed: int = 0
    """Seed of the run, which is part of the key of every sampling stream."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        encoded = [self.tokens.encode(prompt) for prompt in prompts]
        results = [Completion("", overflow=True)] * len(prompts)
        sent = [row for row, ids in enumerate(encoded) if fits(ids, self.max_prompt_length)]
        if not sent:
            # The other ranks wait for this one in the collective call, so it sends one filler prompt.
            if self.collective:
                self.generate_ids([list(self.tokens.encode(Prompt((Message("user", "."),))))], np.zeros(1, np.uint64))
            return results
        keys = stream_keys([prompts[row].seed for row in sent], self.seed)
        replies, logprobs = self.generate_ids([list(encoded[row]) for row in sent], keys)
        if len(replies) != len(sent):
            raise ValueError(
                f"generate_ids returned {len(replies)} replies for {len(sent)} prompts. It must answer each, in order."
            )
        for index, row in enumerate(sent):
            reply_logprobs = None if logprobs is None else tuple(logprobs[index])
            reply = tuple(replies[index])
            results[row] = make_completion(
                prompts[row], self.tokens, encoded[row], reply, reply_logprobs, self.max_new_tokens
            )
        return results


def fits(ids: Sequence[int], max_prompt_length: int | None) -> bool:
    """Return True if a prompt of `ids` is within the limit; None disables the limit."""
    return max_prompt_length is None or len(ids) <= max_prompt_length
