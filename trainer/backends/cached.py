"""A local backend that caches the keys and values of conversations, so that a turn costs only its new tokens."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from transformers import PreTrainedModel

from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.backends.generation import fits
from mage_envs.trainer.backends.local_model import HFGenerator, reply
from mage_envs.trainer.backends.rows import RaggedCache, evaluating
from mage_envs.trainer.backends.tokens import Ids


class CachedGenerator(HFGenerator):
    """Lock-step generator that answers conversations from one batched cache, with one row per slot.

    Slots (`Prompt.slot`) must be distinct within a call. If a prompt extends the ids in its row, only the new tokens
    are forwarded. If it has no `previous`, or does not extend the row, the row is rebuilt. A slot that is absent from a
    call loses its row, so finished meta-episodes cost nothing. Every order of calls is correct; calls are fast if slots
    advance together.

    A model that a gap in the cache would change is played without a cache between calls. The cache depends on the
    weights: call `reset()` after every update. `Sampling` defines the log-probabilities.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows: dict[int, int] = {}
        """Row of the cache, by slot."""
        self._row_ids: dict[int, Ids] = {}
        """Ids that the row holds, by slot."""
        self._cache: RaggedCache | None = None
        self._drawn_from: dict[Ids, dict[int, float]] = {}
        """Log-probabilities of the legal ids in the last call, by prompt ids; constrained replies only."""

    def reset(self) -> None:
        """Drop the cache and all rows."""
        self._rows, self._row_ids, self._cache, self._drawn_from = {}, {}, None, {}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        # Conversations leave gaps in the cache, which change the replies of such a model.
        if self.batching.way != "ragged":
            return super().generate(prompts)
        encoded = [self.tokens.encode(prompt) for prompt in prompts]
        results = [Completion("", overflow=True)] * len(prompts)
        sent = [row for row, ids in enumerate(encoded) if fits(ids, self.max_prompt_length)]
        # A slot without a prompt loses its row. Here that concerns all slots.
        if not sent:
            self.reset()
            return results
        sent_prompts = [prompts[row] for row in sent]
        ids = [encoded[row] for row in sent]
        with evaluating(self.model):
            for row, answer in zip(sent, self._answer(sent_prompts, ids), strict=True):
                results[row] = answer
        return results

    def score(self, prompts: Sequence[Prompt], replies: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the log-probability of each reply, per prompt, as `HFGenerator.score` does.

        For a prompt of the last call with a constrained reply, it is that of the distribution that was sampled from.
        """
        # Log-probabilities from the last call cost nothing. Only the other prompts need a forward pass.
        logprobs: list[list[float]] = []
        for prompt, texts in zip(prompts, replies, strict=True):
            drawn_logprobs = self._drawn_from.get(self.tokens.encode(prompt), {})
            ids = [self.tokens.encode_reply(text)[0] for text in texts]
            logprobs.append([drawn_logprobs[token_id] for token_id in ids] if drawn_logprobs.keys() >= set(ids) else [])
        missing = [index for index, texts in enumerate(replies) if texts and not logprobs[index]]
        scored = super().score([prompts[index] for index in missing], [replies[index] for index in missing])
        for index, scores in zip(missing, scored, strict=True):
            logprobs[index] = scores
        return logprobs

    def _answer(self, prompts: Sequence[Prompt], encoded: Sequence[Ids]) -> list[Completion]:
        """Sample the replies, and update the rows."""
        slots = [prompt.slot for prompt in prompts]
        if len(set(slots)) != len(slots):
            raise ValueError("Two prompts of one call have the same slot. CachedGenerator needs one prompt per slot.")
        reused_lengths = [self._count_reused(prompt, ids) for prompt, ids in zip(prompts, encoded, strict=True)]
        cache = self._arrange(slots, reused_lengths)
        new = [ids[length:] for ids, length in zip(encoded, reused_lengths, strict=True)]
        self._drawn_from = {}

        def keep(legal: Sequence[Ids], chances: torch.Tensor) -> None:
            # One transfer from the device per set of legal ids, because there are few sets and many rows.
            for ids in dict.fromkeys(filter(None, legal)):
                rows = [row for row, mine in enumerate(legal) if mine == ids]
                logprobs = chances[rows][:, list(ids)].tolist()
                self._drawn_from |= {
                    encoded[row]: dict(zip(ids, row_logprobs, strict=True))
                    for row, row_logprobs in zip(rows, logprobs, strict=True)
                }

        answers = reply(cache, new, prompts, encoded, self.tokens, self.sampling, keep)
        self._rows = {slot: row for row, slot in enumerate(slots)}
        # Without the last sampled id, which was not forwarded: the cache has no keys and values for it.
        self._row_ids = {slot: ids + answer.ids[:-1] for slot, ids, answer in zip(slots, encoded, answers, strict=True)}
        return answers

    def _count_reused(self, prompt: Prompt, ids: Ids) -> int:
        """Return the number of prompt ids to reuse: the length of the row, or 0."""
        row_ids = self._row_ids.get(prompt.slot, ())
        # Strictly shorter: at least one token must be forwarded, because the cache holds no logits.
        extends = prompt.previous is not None and len(row_ids) < len(ids) and ids[: len(row_ids)] == row_ids
        return len(row_ids) if extends else 0

    def _arrange(self, slots: Sequence[int], reused_lengths: Sequence[int]) -> RaggedCache:
        """Return the cache with one row per slot, in order. Rows to rebuild are empty."""
        if self._cache is None or not any(reused_lengths):
            self._cache = RaggedCache(self.model, len(slots))
            return self._cache
        cache = self._cache
        # A new slot takes row 0 as a placeholder. It reuses no ids, so the loop below empties its copy.
        cache.select([self._rows.get(slot, 0) for slot in slots])
        for row, length in enumerate(reused_lengths):
            if length == 0:
                cache.forget(row)
        # Absent slots and emptied rows leave masked columns, which every forward pass would still attend over.
        cache.compact()
        return cache


def copy_model(model: PreTrainedModel) -> PreTrainedModel:
    """Return an independent copy of the model for sampling."""
    copied = deepcopy(model)
    # TRL replaces `forward` on instances by a function that is bound to the original model, also in a copy.
    for module in copied.modules():
        vars(module).pop("forward", None)
    return copied


class CopiedGenerator(CachedGenerator):
    """Generator that samples from a copy of the model (`copy_model`), so that the model can be trained meanwhile."""

    def take_weights(self, model: torch.nn.Module) -> None:
        """Copy the current weights of the model. No call may be under way."""
        with torch.no_grad():
            for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
                mine.copy_(theirs)
        self.reset()
