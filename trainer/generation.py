"""Backends that need no torch: scripted, lock-step around a function of ids; and what all backends share.

A lock-step backend is a `mage_envs.text.generation.Generator`; a streaming one is a `StreamingGenerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from mage_envs.randomness import UInt64s, fold_all
from mage_envs.text.generation import Completion, Message, Prompt
from trainer.tokens import ChatTokenizer, make_completion

GenerateIds = Callable[[list[list[int]], UInt64s], tuple[list[list[int]], list[list[float]] | None]]
"""Prompts' ids and the keys of their streams to sampled ids and, if known, their log-probabilities; in order, nothing
dropped."""

_MASK = 0xFFFFFFFFFFFFFFFF


@runtime_checkable
class StreamingGenerator(Protocol):
    """Answers each prompt as soon as its own reply is there; a slot has at most one prompt under way."""

    def submit(self, prompt: Prompt) -> None:
        """Starts answering `prompt`."""

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Waits for at least one reply, at most `timeout` seconds; all (slot, completion) pairs that are ready.

        None under way: an empty list. What is under way goes on between the calls.
        """
        ...

    def cancel(self) -> None:
        """Gives up all that is under way: no later `poll` tells of it."""


def answer_all(generator: StreamingGenerator, prompts: Sequence[Prompt]) -> list[Completion]:
    """Answers a whole batch through a streaming backend; slots are replaced by rows, so they need not be distinct."""
    results: dict[int, Completion] = {}
    for row, prompt in enumerate(prompts):
        generator.submit(prompt._replace(slot=row))
    while len(results) < len(prompts):
        results.update(generator.poll())
    return [results[row] for row in range(len(prompts))]


def stream_keys(seeds: Sequence[tuple[int, ...]], base: int = 0) -> UInt64s:
    """One stream key (n,) per sampling seed; seeds may differ in length and be any integers."""
    if not all(seeds):
        raise ValueError("A Prompt has no seed, so its sampling has no key; give Prompt(seed=...), or temperature 0.")
    keys = np.zeros(len(seeds), np.uint64)
    by_length: dict[int, list[int]] = {}
    for row, seed in enumerate(seeds):
        by_length.setdefault(len(seed), []).append(row)
    for rows in by_length.values():
        parts = [[base & _MASK, *(part & _MASK for part in seeds[row])] for row in rows]
        keys[rows] = fold_all(np.array(parts, np.uint64))
    return keys


class ScriptedGenerator:
    """Replies are `policy(prompt)`: tests, oracles, scripted agents. With a tokenizer they carry real ids."""

    def __init__(self, policy: Callable[[Prompt], str], tokens: ChatTokenizer | None = None) -> None:
        self.policy = policy
        self.tokens = tokens

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt: Prompt) -> Completion:
        text = self.policy(prompt)
        if self.tokens is None:
            return Completion(text)
        legal = self.tokens.single_ids(prompt.legal_actions) if text in prompt.legal_actions else ()
        return Completion(text, self.tokens.encode(prompt), self.tokens.encode_reply(text), legal_ids=legal)


class LockStepGenerator:
    """Answers whole batches through `generate_ids` (TRL's generation, colocated vLLM, any function of ids).

    A prompt above `max_prompt_length` tokens overflows and is not sent. With `collective` every call of `generate`
    is exactly one call of `generate_ids`, with one filler prompt where there is nothing to send: generation is
    collective over ranks under tensor parallelism, ZeRO-3 and FSDP.
    """

    def __init__(
        self,
        tokens: ChatTokenizer,
        generate_ids: GenerateIds,
        max_prompt_length: int | None = None,
        max_new_tokens: int = 1,
        collective: bool = False,
        seed: int = 0,
    ) -> None:
        """`seed` joins `Prompt.seed` in the key of every stream."""
        self.tokens = tokens
        self.generate_ids = generate_ids
        self.max_prompt_length = max_prompt_length
        self.max_new_tokens = max_new_tokens
        self.collective = collective
        self.seed = seed

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        encoded = [self.tokens.encode(prompt) for prompt in prompts]
        results = [Completion("", overflow=True)] * len(prompts)
        sent = [row for row, ids in enumerate(encoded) if fits(ids, self.max_prompt_length)]
        if not sent:
            if self.collective:
                self.generate_ids([list(self.tokens.encode(Prompt((Message("user", "."),))))], np.zeros(1, np.uint64))
            return results
        keys = stream_keys([prompts[row].seed for row in sent], self.seed)
        replies, logprobs = self.generate_ids([list(encoded[row]) for row in sent], keys)
        if len(replies) != len(sent):
            raise ValueError(
                f"generate_ids returned {len(replies)} replies for {len(sent)} prompts; it must answer each, in order."
            )
        for index, row in enumerate(sent):
            known = None if logprobs is None else tuple(logprobs[index])
            reply = tuple(replies[index])
            results[row] = make_completion(prompts[row], self.tokens, encoded[row], reply, known, self.max_new_tokens)
        return results


def fits(ids: Sequence[int], max_prompt_length: int | None) -> bool:
    """Whether a prompt of `ids` is within the limit (None: no limit)."""
    return max_prompt_length is None or len(ids) <= max_prompt_length
