"""A local backend that keeps each conversation's keys and values between calls, so that a turn costs its new tokens."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from transformers import PreTrainedModel

from mage_envs.text.generation import Completion, Prompt
from trainer.generation import fits
from trainer.local_model import HFGenerator, RaggedCache, Sampling, check_full_attention, evaluating, reply
from trainer.tokens import ChatTokenizer, Ids


class CachedGenerator:
    """Answers conversations from one batched cache with a row per slot (`Prompt.slot`, distinct within a call).

    A slot whose prompt extends what its row holds costs the new tokens only. A prompt without `previous` starts its row
    anew, anything else that does not extend the row rebuilds it, and a slot that is absent from a call loses its row
    (finished meta-episodes cost nothing). Correct for every order of calls; fast where slots advance together.

    The cache belongs to the weights: call `reset()` after every update. Log-probabilities: see `Sampling`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokens: ChatTokenizer,
        sampling: Sampling | None = None,
        max_prompt_length: int | None = None,
    ) -> None:
        check_full_attention(model)
        self.model = model
        self.tokens = tokens
        self.sampling = sampling or Sampling()
        self.max_prompt_length = max_prompt_length
        self._rows: dict[int, int] = {}
        """Slot to row of the cache."""
        self._held: dict[int, Ids] = {}
        """Slot to the ids that its row holds."""
        self._cache: RaggedCache | None = None
        self._drawn_from: dict[Ids, dict[int, float]] = {}
        """Of the last call's prompts, by their ids, with a constrained reply: log-probabilities of the legal ids."""

    def reset(self) -> None:
        """Forgets everything."""
        self._rows, self._held, self._cache, self._drawn_from = {}, {}, None, {}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        encoded = [self.tokens.encode(prompt) for prompt in prompts]
        results = [Completion("", overflow=True)] * len(prompts)
        sent = [row for row, ids in enumerate(encoded) if fits(ids, self.max_prompt_length)]
        if not sent:
            self.reset()
            return results
        asked = [prompts[row] for row in sent]
        ids = [encoded[row] for row in sent]
        with evaluating(self.model):
            for row, answer in zip(sent, self._answer(asked, ids), strict=True):
                results[row] = answer
        return results

    def score(self, prompts: Sequence[Prompt], replies: Sequence[Sequence[str]]) -> list[list[float]]:
        """Per prompt, the log-probability of each of its replies, as `HFGenerator.score` has it.

        For the constrained replies of the last call it is that of the distribution that they were drawn from.
        """
        found: list[list[float]] = []
        for prompt, some in zip(prompts, replies, strict=True):
            known = self._drawn_from.get(self.tokens.encode(prompt), {})
            ids = [self.tokens.encode_reply(text)[0] for text in some]
            found.append([known[one] for one in ids] if known.keys() >= set(ids) else [])
        missing = [place for place, some in enumerate(replies) if some and not found[place]]
        plain = HFGenerator(self.model, self.tokens, self.sampling, self.max_prompt_length)
        scored = plain.score([prompts[place] for place in missing], [replies[place] for place in missing])
        for place, scores in zip(missing, scored, strict=True):
            found[place] = scores
        return found

    def _answer(self, prompts: Sequence[Prompt], encoded: Sequence[Ids]) -> list[Completion]:
        slots = [prompt.slot for prompt in prompts]
        if len(set(slots)) != len(slots):
            raise ValueError("Two prompts of one call have the same slot; CachedGenerator needs one prompt per slot.")
        kept = [self._kept(prompt, ids) for prompt, ids in zip(prompts, encoded, strict=True)]
        cache = self._arrange(slots, kept)
        new = [ids[length:] for ids, length in zip(encoded, kept, strict=True)]
        self._drawn_from = {}

        def keep(legal: Sequence[Ids], chances: torch.Tensor) -> None:
            # One transfer for each set of legal ids, as there are few sets and many rows.
            for ids in dict.fromkeys(filter(None, legal)):
                rows = [row for row, mine in enumerate(legal) if mine == ids]
                found = chances[rows][:, list(ids)].tolist()
                self._drawn_from |= {
                    encoded[row]: dict(zip(ids, known, strict=True)) for row, known in zip(rows, found, strict=True)
                }

        answers = reply(cache, new, prompts, encoded, self.tokens, self.sampling, keep)
        self._rows = {slot: row for row, slot in enumerate(slots)}
        # The last sampled id was not forwarded.
        self._held = {slot: ids + answer.ids[:-1] for slot, ids, answer in zip(slots, encoded, answers, strict=True)}
        return answers

    def _kept(self, prompt: Prompt, ids: Ids) -> int:
        """How many of the prompt's ids its row already holds: all that it holds, or none."""
        held = self._held.get(prompt.slot, ())
        extends = prompt.previous is not None and len(held) < len(ids) and ids[: len(held)] == held
        return len(held) if extends else 0

    def _arrange(self, slots: Sequence[int], kept: Sequence[int]) -> RaggedCache:
        """The cache with one row per slot, in order; rows of which nothing is kept are empty."""
        if self._cache is None or not any(kept):
            self._cache = RaggedCache(self.model, len(slots))
            return self._cache
        cache = self._cache
        cache.select([self._rows.get(slot, 0) for slot in slots])
        for row, length in enumerate(kept):
            if length == 0:
                cache.forget(row)
        cache.compact()
        return cache


def copied_model(model: PreTrainedModel) -> PreTrainedModel:
    """A copy that samples for itself."""
    copied = deepcopy(model)
    for module in copied.modules():
        vars(module).pop("forward", None)  # TRL's stand-in, which in a copy still asks the original
    return copied


class CopiedGenerator(CachedGenerator):
    """Asks a copy of the model (`copied_model`), so that the model can be trained meanwhile."""

    def take_weights(self, model: torch.nn.Module) -> None:
        """Copies the weights of the model as they are now; nothing may be under way."""
        with torch.no_grad():
            for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
                mine.copy_(theirs)
        self.reset()
