"""Conversion of trajectories to padded tensors: prefix merging, mini-batches, shares of ranks, micro-batches.

Splits depend only on lengths and a seeded shuffle, so every rank computes the same plan from the same rows.

Shapes: B rows of a micro-batch, T tokens of its longest row, N trained tokens, S model calls, M one-token answers with
known legal ids, L legal ids of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mage_envs.wrappers.rollout.trajectory import Step, Trajectory

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

MIN_FILL = 0.75
"""Minimum length of a row in a micro-batch, as a share of its longest row. It bounds the padding."""


@dataclass
class Row:
    """One sequence to forward (T tokens), N of which are trained."""

    ids: Ints
    """(T,): ids as sent and sampled, never tokenised again."""
    targets: Ints
    """(N,): positions of the trained tokens, ascending, never 0."""
    advantages: Floats
    """(N,): the advantage of the step that each token belongs to."""
    sampling: Floats | None
    """(N,): log-probabilities under the sampler, NaN if unknown; None if the sampler returned none at all."""
    legal: tuple[tuple[int, tuple[int, ...]], ...]
    """(index into `targets`, ids that it was drawn among) of each token of a reply that is not free."""
    lengths: tuple[int, ...]
    """(S,): trained tokens of each trained model call; they sum to N."""
    old: Floats | None = None
    """(N,): log-probabilities before the rollout's first update; None until they are computed."""
    reference: Floats | None = None
    """(N,): log-probabilities under the reference model; None without one."""

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def steps(self) -> int:
        """Return the number of trained model calls."""
        return len(self.lengths)


class _OpenRow:
    """Row under construction, to which steps are appended."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids = ids
        self.targets: list[int] = []
        self.advantages: list[float] = []
        self.sampling: list[float] = []
        self.legal: list[tuple[int, tuple[int, ...]]] = []
        self.lengths: list[int] = []

    def extends_to(self, prompt_ids: tuple[int, ...]) -> bool:
        """Return True if the prompt begins with all tokens of the row."""
        return prompt_ids[: len(self.ids)] == self.ids

    def append(self, step: Step, advantage: float, trained: bool) -> None:
        # Prompt and reply replace the row's ids: the prompt begins with them. Tokens of other roles are context only.
        start, count = len(step.prompt_ids), len(step.completion_ids)
        self.ids = step.prompt_ids + step.completion_ids
        # An untrained reply still extends the row, because later prompts contain it.
        if not trained:
            return
        self.legal += [(len(self.targets) + index, ids) for index, ids in enumerate(step.legal_ids)]
        # One advantage per step: every token of the reply gets A.
        self.targets.extend(range(start, start + count))
        self.advantages.extend([advantage] * count)
        self.sampling.extend([float("nan")] * count if step.logprobs is None else step.logprobs)
        self.lengths.append(count)

    def close(self) -> Row:
        sampling = np.array(self.sampling, np.float32)
        return Row(
            ids=np.array(self.ids, np.int64),
            targets=np.array(self.targets, np.int64),
            advantages=np.array(self.advantages, np.float32),
            sampling=None if np.isnan(sampling).all() else sampling,
            legal=tuple(self.legal),
            lengths=tuple(self.lengths),
        )


@dataclass
class Update:
    """This rank's share of one optimiser step."""

    batches: list[list[Row]]
    """Micro-batches, equally many on every rank."""
    tokens: int
    """Trained tokens of the whole update, over all ranks."""
    steps: int = 1
    """Trained model calls of the whole update, over all ranks."""
    scored: int = 0
    """Trained tokens of the forwarded rows, over all ranks."""
    reused: bool = False
    """True if the sampler's log-probabilities are used as the old ones."""


def build_rows(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    *,
    merge: bool = True,
    mask_truncated: bool = False,
) -> list[Row]:
    """Build the rows of all trajectories that did not fail, in order. Rows without trained tokens are omitted.

    Args:
        advantages: One advantage per step, [trajectory][step].
        merge: True to append a step to the previous row if its prompt extends that row token by token.
        mask_truncated: True to exclude replies that were cut at the token limit. Empty replies are never trained.

    Returns:
        The rows; their number depends on how many prompts extend the previous row.

    Raises:
        ValueError: If a reply has token ids and its prompt has none.
    """
    rows: list[Row] = []
    for trajectory, weights in zip(trajectories, advantages, strict=True):
        if trajectory.failure is None:
            rows += _trajectory_rows(trajectory, weights, merge, mask_truncated)
    return rows


def _trajectory_rows(trajectory: Trajectory, weights: Sequence[float], merge: bool, mask_truncated: bool) -> list[Row]:
    open_rows: list[_OpenRow] = []
    for step, weight in zip(trajectory.steps, weights, strict=True):
        if not step.completion_ids:
            continue
        if not step.prompt_ids:
            raise ValueError(
                f"A reply in group {trajectory.group} has token ids but its prompt has none, so it cannot be trained. "
                f"The generator must return Completion.prompt_ids."
            )
        # Merging leaves the gradient unchanged: in a causal model a token's logits depend on its prefix only. The
        # shared prefix is forwarded once instead of once per step.
        if not (merge and open_rows and open_rows[-1].extends_to(step.prompt_ids)):
            open_rows.append(_OpenRow(step.prompt_ids))
        open_rows[-1].append(step, weight, trained=not (mask_truncated and step.truncated))
    return [row.close() for row in open_rows if row.targets]


def split_updates(rows: Sequence[Row], updates: int, rng: np.random.Generator) -> list[list[Row]]:
    """Shuffle the rows into mini-batches with near-equal numbers of rows.

    Args:
        updates: Number of mini-batches; fewer are returned if there are fewer rows.
        rng: Generator of the shuffle, seeded equally on every rank.

    Returns:
        One list of rows per optimiser step; a single empty one without rows.
    """
    order = rng.permutation(len(rows))
    return [[rows[i] for i in part] for part in np.array_split(order, max(1, min(updates, len(rows))))]


def balance_rows(rows: Sequence[Row], ranks: int) -> list[list[Row]]:
    """Return one share of the rows per rank, with near-equal token counts."""
    # Greedy bin packing: the longest row first, always to the rank with the fewest tokens so far.
    shares: list[list[Row]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in sorted(rows, key=lambda row: -row.length):
        rank = loads.index(min(loads))
        shares[rank].append(row)
        loads[rank] += row.length
    return shares


def plan_micro_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Return the row indices of each micro-batch, longest rows first.

    A micro-batch has at most `max_tokens` tokens with padding (rows x longest row), unless it is a single longer row.
    """
    plan: list[list[int]] = []
    longest = 0
    # In descending order the first row of a micro-batch is its longest, and its length is the padded width.
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if plan and (len(plan[-1]) + 1) * longest <= max_tokens and length >= MIN_FILL * longest:
            plan[-1].append(index)
        else:
            plan.append([index])
            longest = length
    return plan


def micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """Split the rows into micro-batches of at most `max_tokens` tokens with padding."""
    return [[rows[i] for i in part] for part in plan_micro_batches([row.length for row in rows], max_tokens)]


def rank_share(
    rows: Sequence[Row],
    rank: int,
    ranks: int,
    max_tokens: int,
    pad_id: int,
    forwards: Callable[[Row], bool] = lambda row: True,
) -> Update:
    """Return the share of one rank in a mini-batch.

    Args:
        rows: Rows of the mini-batch, of all ranks.
        max_tokens: Maximum tokens of a micro-batch, with padding.
        pad_id: Token id of the padding.
        forwards: Predicate of the rows that can contribute a gradient. The others count in the means only.

    Returns:
        The micro-batches of this rank, with the counts over all ranks.
    """
    forwarded = [row for row in rows if forwards(row)]
    plans = [micro_batches(share, max_tokens) for share in balance_rows(forwarded, ranks)]
    # All ranks must run equally many forward passes, and at least one, because gradients are reduced collectively.
    padding = [[dummy_row(pad_id)]] * (max(1, *map(len, plans)) - len(plans[rank]))
    return Update(
        batches=padding + plans[rank],
        tokens=sum(len(row.targets) for row in rows),
        steps=sum(row.steps for row in rows),
        scored=sum(len(row.targets) for row in forwarded),
    )


@dataclass
class MicroBatch:
    """Rows padded on the left to (B, T). Values of trained tokens are flat, (N,), row after row."""

    ids: torch.Tensor
    """(B, T): token ids."""
    attention: torch.Tensor
    """(B, T): 1 for a token, 0 for padding."""
    positions: torch.Tensor
    """(B, T): position of each token in its own row."""
    rows: torch.Tensor
    """(N,): row index of each trained token."""
    columns: torch.Tensor
    """(N,): its column in `ids`."""
    steps: torch.Tensor
    """(N,): index of its model call, counted over the micro-batch."""
    lengths: torch.Tensor
    """(S,): trained tokens of each model call."""
    advantages: torch.Tensor
    """(N,): its advantage A."""
    old: torch.Tensor | None
    """(N,): its old log-probability; None if the current policy is the old one."""
    reference: torch.Tensor | None
    """(N,): its log-probability under the reference model; None without one."""
    sampling: torch.Tensor | None
    """(N,): its log-probability under the sampler, NaN if unknown."""
    legal_at: torch.Tensor
    """(M,): indices of the trained tokens with known legal ids."""
    legal_ids: torch.Tensor
    """(M, L): their legal ids, padded with -1."""


def dummy_row(pad_id: int) -> Row:
    """Return a row of two padding tokens that trains nothing, for a rank with fewer micro-batches than the others."""
    nothing = np.zeros(0, np.int64)
    trained = nothing.astype(np.float32)
    return Row(np.full(2, pad_id, np.int64), nothing, trained, sampling=None, legal=(), lengths=())


def collate(rows: Sequence[Row], pad_id: int, device: torch.device | str = "cpu") -> MicroBatch:
    """Right-align the rows, and convert them to tensors.

    Args:
        rows: B rows of a micro-batch.
        pad_id: Token id of the padding, which the attention mask hides.

    Returns:
        The micro-batch, padded to the longest row.
    """
    # ids, attention: (B, T). Row i occupies the last `row.length` columns.
    width = max(row.length for row in rows)
    ids = np.full((len(rows), width), pad_id, np.int64)
    attention = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, width - row.length :] = row.ids
        attention[index, width - row.length :] = 1
    legal_at, legal_ids = _collate_legal(rows)

    # (S,): model calls of all rows, in order, so that sums and means per call need one index per token.
    lengths = np.array([length for row in rows for length in row.lengths], np.int64)

    def tensor(array: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    def flat(parts: Sequence[Floats | None]) -> torch.Tensor | None:
        if all(part is None for part in parts):
            return None
        # Rows without values get NaN, so that all arrays stay aligned with the trained tokens.
        arrays = [
            np.full(len(row.targets), np.nan, np.float32) if part is None else part
            for row, part in zip(rows, parts, strict=True)
        ]
        return tensor(np.concatenate(arrays))

    return MicroBatch(
        ids=tensor(ids),
        attention=tensor(attention),
        # Counted per row, because padding on the left would shift the rotary positions.
        positions=tensor(np.maximum(attention.cumsum(1) - 1, 0)),
        rows=tensor(np.repeat(np.arange(len(rows)), [len(row.targets) for row in rows])),
        columns=tensor(np.concatenate([row.targets + width - row.length for row in rows])),
        steps=tensor(np.repeat(np.arange(len(lengths)), lengths)),
        lengths=tensor(lengths),
        advantages=tensor(np.concatenate([row.advantages for row in rows])),
        old=flat([row.old for row in rows]),
        reference=flat([row.reference for row in rows]),
        sampling=flat([row.sampling for row in rows]),
        legal_at=tensor(legal_at),
        legal_ids=tensor(legal_ids),
    )


def _collate_legal(rows: Sequence[Row]) -> tuple[Ints, Ints]:
    """Return (M,) indices into the flat trained tokens, and (M, L) legal ids padded with -1."""
    offsets = np.cumsum([0, *(len(row.targets) for row in rows)])
    legal_answers = [(int(offsets[i]) + at, ids) for i, row in enumerate(rows) for at, ids in row.legal]
    legal_ids = np.full((len(legal_answers), max((len(ids) for _, ids in legal_answers), default=0)), -1, np.int64)
    for index, (_, ids) in enumerate(legal_answers):
        legal_ids[index, : len(ids)] = ids
    return np.array([at for at, _ in legal_answers], np.int64), legal_ids


def split_rows(values: torch.Tensor, rows: Sequence[Row]) -> list[Floats]:
    """Split flat values (N,) of a collated batch into one array per row."""
    counts = [len(row.targets) for row in rows]
    array = values.detach().float().cpu().numpy()
    # Copies, because a part of `np.split` is a view that would keep the whole array alive.
    return [part.copy() for part in np.split(array, np.cumsum(counts)[:-1])]


def reuse_sampling(rows: Sequence[Row]) -> None:
    """Set the old log-probabilities to those of the sampler. Raise ValueError if one is unknown."""
    for row in rows:
        if len(row.targets) and (row.sampling is None or np.isnan(row.sampling).any()):
            raise ValueError(
                "reuse_sampling_logprobs=True, but the generator returns no log-probabilities. Set it to False."
            )
        row.old = row.sampling
