"""Sampling from a local causal language model: one decoding loop, and `HFGenerator`.

A reply depends on the prompt, its key (`Prompt.seed`) and the weights, but not on batch, order or slot, up to float
rounding. Each token inverts the cumulative distribution at a keyed uniform number.

Shapes: B rows, V vocabulary entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from mage_envs.random.streams import uniforms
from mage_envs.text.generation import Completion, Prompt
from mage_envs.text.parser import parse_reply
from mage_envs.trainer.backends.batching import check_full_attention as check_full_attention
from mage_envs.trainer.backends.batching import probe_batching
from mage_envs.trainer.backends.generation import fits, stream_keys
from mage_envs.trainer.backends.rows import RaggedCache, WholeRow, evaluating
from mage_envs.trainer.backends.tokens import ActionTrie, ChatTokenizer, Ids, make_completion


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of replies.

    Log-probabilities are those of the distribution that is sampled from. It is the softmax at `temperature`,
    renormalised over the legal ids if `constrained` applies, and over the tokens that top-k and top-p keep. Training
    requires the defaults of top_k and top_p.
    """

    max_new_tokens: int = 1
    """Reply limit in tokens."""
    temperature: float = 1.0
    """Temperature; 0 is greedy, with the log-probabilities of temperature 1."""
    top_p: float = 1.0
    """Probability mass to sample from; 1 keeps all tokens."""
    top_k: int = 0
    """Number of most likely tokens to sample from; 0 keeps all."""
    constrained: bool = False
    """True to reply with exactly one legal action. It has an end token only if it begins another action."""
    seed: int = 0
    """Seed that is part of the key of every stream, with `Prompt.seed`."""
    stops_at_answer: bool = False
    """True to end a reply when its answer tag is closed, outside of a thought."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ValueError(
                f"{self} is out of range; expected max_new_tokens >= 1, temperature >= 0, 0 < top_p <= 1, top_k >= 0."
            )


def distribution(logits: torch.Tensor, sampling: Sampling, allowed: torch.Tensor | None) -> torch.Tensor:
    """Compute the sampling distribution.

    Args:
        logits: (B, V) logits of the next token.
        sampling: Temperature, top-k and top-p.
        allowed: (B, V) mask of the ids that may be drawn; None allows all.

    Returns:
        (B, V) log-probabilities, -inf for ids that cannot be drawn.
    """
    # Temperature, top-k and top-p in the order of transformers. Greedy sampling (0) keeps temperature 1.
    scores = logits.float() / (sampling.temperature or 1.0)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if 0 < sampling.top_k < scores.shape[1]:
        weakest = scores.topk(sampling.top_k, dim=1).values[:, -1:]
        scores = scores.masked_fill(scores < weakest, -torch.inf)
    if sampling.top_p < 1:
        ranked, order = scores.softmax(1).sort(dim=1, descending=True)
        # A token is outside if those before it already have the mass top_p. The first token always remains.
        outside = ranked.cumsum(1) - ranked >= sampling.top_p
        scores = scores.masked_fill(outside.scatter(1, order, outside), -torch.inf)
    return scores.log_softmax(1)


def draw(
    logprobs: torch.Tensor, uniforms: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return one id per row and its log-probability: the inverse of the distribution at `uniforms` (None: the mode)."""
    if uniforms is None:
        ids = logprobs.argmax(1)
    else:
        # float64, because float32 sums over a large vocabulary are too coarse. Scaling by the last sum replaces a
        # normalisation, and the clamp catches a target that rounds up to that sum.
        cumulative = logprobs.double().exp().cumsum(1)
        targets = torch.from_numpy(uniforms).to(cumulative.device)[:, None] * cumulative[:, -1:]
        ids = torch.searchsorted(cumulative, targets, right=True)[:, 0].clamp(max=logprobs.shape[1] - 1)
    id_logprobs = logprobs.gather(1, ids[:, None])[:, 0]
    return ids.cpu().numpy(), id_logprobs.float().cpu().numpy()


def mask_legal_ids(legal: Sequence[Ids], logits: torch.Tensor) -> torch.Tensor | None:
    """Return a mask (B, V): the legal ids of constrained rows, all ids of others; None if no row is constrained."""
    if not any(legal):
        return None
    # One row of the table per distinct set of legal ids, because many prompts share a set.
    kinds = {ids: index for index, ids in enumerate(dict.fromkeys(legal))}
    table = np.zeros((len(kinds), logits.shape[1]), np.bool_)
    for ids, index in kinds.items():
        table[index, list(ids) if ids else slice(None)] = True
    return torch.from_numpy(table[[kinds[ids] for ids in legal]]).to(logits.device)


def reply(
    cache: RaggedCache | WholeRow,
    new: Sequence[Sequence[int]],
    prompts: Sequence[Prompt],
    prompt_ids: Sequence[Ids],
    tokens: ChatTokenizer,
    sampling: Sampling,
    on_constrained: Callable[[Sequence[Ids], torch.Tensor], None] | None = None,
) -> list[Completion]:
    """Forward the new ids of every row, then sample all replies. The last sampled id is not forwarded.

    Args:
        cache: Cache with one row per prompt.
        new: Ids of each prompt that its row does not contain yet.
        prompt_ids: Ids of each whole prompt, for the completions.
        tokens: Tokenizer with the end ids.
        on_constrained: Callback of a constrained first token. It receives the legal ids per row, and the (B, V)
            log-probabilities that the token is drawn from.

    Returns:
        One completion per prompt.
    """
    tries = [action_trie(prompt, tokens, sampling) for prompt in prompts]
    keys = stream_keys([prompt.seed for prompt in prompts], sampling.seed) if sampling.temperature else None
    ids: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    live = list(range(len(prompts)))
    answered_rows: set[int] = set()
    logits = cache.append(new)
    for step in range(sampling.max_new_tokens):
        # A finished row is in the batch until the others have ended, and what is drawn for it is dropped.
        legal = [() if trie is None else trie.allowed(ids[row]) for row, trie in enumerate(tries)]
        allowed = mask_legal_ids(legal, logits)
        # The number of step t depends on the row's key and t only, so finished rows do not shift other streams.
        numbers = None if keys is None else uniforms(keys, step)
        chances = distribution(logits, sampling, allowed)
        if allowed is not None and on_constrained is not None and step == 0:
            # Only a reply of one token has the probability of its first one.
            on_constrained([ids if is_flat(trie) else () for trie, ids in zip(tries, legal, strict=True)], chances)
        drawn_ids, drawn_logprobs = draw(chances, numbers)
        for row in live:
            ids[row].append(int(drawn_ids[row]))
            logprobs[row].append(float(drawn_logprobs[row]))
        stopped = tokens.end_ids
        live = [row for row in live if not _has_ended(ids[row], tries[row], stopped)]
        if sampling.stops_at_answer:
            answered_rows |= {row for row in live if has_answer(tokens, ids[row], prompts[row])}
            live = [row for row in live if row not in answered_rows]
        if not live or step + 1 == sampling.max_new_tokens:
            break
        # Finished rows stay in the batch without new ids, so that the rows of the cache keep their order.
        going = set(live)
        logits = cache.append([ids[row][-1:] if row in going else () for row in range(len(prompts))])
    return [
        make_completion(
            prompt,
            tokens,
            prompt_ids[row],
            tuple(ids[row]),
            tuple(logprobs[row]),
            # A reply that stopped at its answer was not cut, even if the answer ends at the limit.
            sampling.max_new_tokens + (row in answered_rows),
            tries[row],
        )
        for row, prompt in enumerate(prompts)
    ]


def action_trie(prompt: Prompt, tokens: ChatTokenizer, sampling: Sampling) -> ActionTrie | None:
    """Return the trie of the replies to a prompt, or None if its reply is free.

    Raises ValueError if a legal action is longer than the reply limit.
    """
    if not (sampling.constrained and prompt.legal_actions and prompt.phase == "play"):
        return None
    trie = tokens.prompt_trie(prompt)
    if trie.depth > sampling.max_new_tokens:
        raise ValueError(
            f"constrained=True needs replies of {trie.depth} tokens for the actions of this prompt, and the limit is "
            f"{sampling.max_new_tokens}: use --max_completion_length {trie.depth} or more."
        )
    return trie


def is_flat(trie: ActionTrie | None) -> bool:
    """Return True if every reply of a trie is one token."""
    return trie is not None and trie.depth == 1


def _has_ended(ids: Sequence[int], trie: ActionTrie | None, end_ids: frozenset[int]) -> bool:
    """Return True if a reply is whole."""
    return ids[-1] in end_ids if trie is None else not trie.allowed(ids)


def has_answer(tokens: ChatTokenizer, ids: Sequence[int], prompt: Prompt) -> bool:
    """Return True if the last of these ids closes the answer tag of a reply, outside of a thought."""
    tag = prompt.info.get("answer_tag")
    # The whole reply is decoded only after an id that can close a tag.
    if tag is None or ">" not in tokens.decode(ids[-1:]):
        return False
    return parse_reply(tokens.read_reply(tuple(ids)), tag).answer is not None


@dataclass(eq=False, repr=False)
class HFGenerator:
    """Stateless generator for a saved model, for evaluations and for opponents that are language models.

    Prompts are answered in batches of similar length. The batch that a prompt is in does not change its reply.
    """

    model: PreTrainedModel
    """Causal language model. A probe finds how its rows may be batched and cached."""
    tokens: ChatTokenizer
    """Tokenizer with the prompt format."""
    sampling: Sampling = Sampling()
    """Sampling parameters (default: one token at temperature 1)."""
    max_prompt_length: int | None = None
    """Prompt limit in tokens; None disables it. A longer prompt returns `overflow`."""
    batch_size: int = 64
    """Prompts per forward pass (default: 64)."""

    def __post_init__(self) -> None:
        self.batching = probe_batching(self.model)
        """How prompts are played, and whether a padded batch has the log-probabilities of single rows."""

    def score(self, prompts: Sequence[Prompt], replies: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the log-probability of each reply as a whole answer, per prompt, at temperature 1.

        A constrained reply is scored among the legal actions, token by token. The end token of a free one is included,
        unless the reply limit is one token.
        """
        pairs = [(prompt, reply) for prompt, texts in zip(prompts, replies, strict=True) for reply in texts]
        flat_scores: list[float] = []
        with evaluating(self.model):
            size = self.batch_size if self.batching.padded else 1
            for start in range(0, len(pairs), size):
                flat_scores += self._score(pairs[start : start + size])
        scores = iter(flat_scores)
        return [[next(scores) for _ in texts] for texts in replies]

    def _score(self, pairs: Sequence[tuple[Prompt, str]]) -> list[float]:
        """Return the log-probability of one batch of replies, (B,)."""
        tries = [action_trie(prompt, self.tokens, self.sampling) for prompt, _ in pairs]
        ends = [self._reply_ids(reply, trie) for (_, reply), trie in zip(pairs, tries, strict=True)]
        rows = [(*self.tokens.encode(prompt), *ids) for (prompt, _), ids in zip(pairs, ends, strict=True)]
        width, longest_end = max(map(len, rows)), max(map(len, ends))
        ids = torch.zeros((len(rows), width), dtype=torch.long, device=self.model.device)
        mask = torch.zeros_like(ids)
        for row, row_ids in enumerate(rows):
            ids[row, width - len(row_ids) :] = torch.tensor(row_ids)
            mask[row, width - len(row_ids) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        # Only the positions that predict reply tokens: logits over the whole prompt would need far more memory.
        columns = torch.arange(width - longest_end - 1, width - 1, device=self.model.device)
        logits = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=columns, use_cache=False
        ).logits
        scores = logits.float()
        for row, (trie, end) in enumerate(zip(tries, ends, strict=True)):
            drawn_among = () if trie is None or trie.reply(end) is None else trie.legal_ids(end)
            for index, legal in enumerate(drawn_among, start=longest_end - len(end)):
                blocked = torch.ones_like(scores[row, index], dtype=torch.bool)
                blocked[list(legal)] = False
                scores[row, index] = scores[row, index].masked_fill(blocked, -torch.inf)
        logps = scores.log_softmax(2).gather(2, ids[:, width - longest_end :, None])[:, :, 0]
        totals = [float(logps[row, longest_end - len(end) :].sum()) for row, end in enumerate(ends)]
        # A constrained model never replies with anything else.
        return [
            -math.inf if trie is not None and trie.reply(end) is None else total
            for total, trie, end in zip(totals, tries, ends, strict=True)
        ]

    def _reply_ids(self, reply: str, trie: ActionTrie | None) -> Ids:
        """Return the ids of a reply whose probability is its own."""
        if trie is not None and (reply_ids := trie.ids(reply)):
            return reply_ids
        ids = self.tokens.encode_reply(reply)
        return ids[:1] if self.sampling.max_new_tokens == 1 else ids

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        encoded = [self.tokens.encode(prompt) for prompt in prompts]
        results = [Completion("", overflow=True)] * len(prompts)
        # Sorted by length, so that a batch needs little padding.
        rows = sorted(
            (row for row, ids in enumerate(encoded) if fits(ids, self.max_prompt_length)),
            key=lambda row: len(encoded[row]),
        )
        with evaluating(self.model):
            for batch in self._batches(rows, encoded):
                ids = [encoded[row] for row in batch]
                without_cache = self.batching.way == "whole"
                cache = WholeRow(self.model) if without_cache else RaggedCache(self.model, len(batch))
                answers = reply(cache, ids, [prompts[row] for row in batch], ids, self.tokens, self.sampling)
                for row, answer in zip(batch, answers, strict=True):
                    results[row] = answer
        return results

    def _batches(self, rows: Sequence[int], encoded: Sequence[Ids]) -> Iterator[Sequence[int]]:
        """Yield batches of rows, which are sorted by length, as the model can play them."""
        size = 1 if self.batching.way == "whole" else self.batch_size
        groups: list[Sequence[int]] = [rows]
        if self.batching.way == "even":
            groups = [list(group) for _, group in groupby(rows, key=lambda row: len(encoded[row]))]
        for group in groups:
            for start in range(0, len(group), size):
                yield group[start : start + size]
