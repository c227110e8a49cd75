"""From trajectories to padded tensors: prefix merging, mini-batches, dealing to ranks, micro-batches.

All splitting is by length and seeded shuffle alone, so every rank computes the same plan from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from trainer.trajectory import Step, Trajectory

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

MIN_FILL = 0.75
"""A micro-batch takes no row shorter than this share of its longest one, which bounds the padding."""


@dataclass
class Row:
    """One sequence to forward (T tokens), N of which are trained."""

    ids: Ints
    """(T,): what was sent and sampled, never tokenised again."""
    targets: Ints
    """(N,): positions of the trained tokens, ascending, never 0."""
    advantages: Floats
    """(N,)"""
    sampling: Floats | None
    """(N,): log-probabilities under the sampler, where it gave them."""
    legal: tuple[tuple[int, tuple[int, ...]], ...]
    """(index into `targets`, ids of the legal answers) of each one-token answer."""
    lengths: tuple[int, ...]
    """Trained tokens of each model call that is trained here; they sum to N."""
    old: Floats | None = None
    """(N,): log-probabilities before the rollout's first update."""
    reference: Floats | None = None
    """(N,): log-probabilities under the reference model."""

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def steps(self) -> int:
        """Model calls that are trained here."""
        return len(self.lengths)


class _OpenRow:
    """A row while steps are still appended to it."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids = ids
        self.targets: list[int] = []
        self.advantages: list[float] = []
        self.sampling: list[float] = []
        self.legal: list[tuple[int, tuple[int, ...]]] = []
        self.lengths: list[int] = []

    def extends_to(self, prompt_ids: tuple[int, ...]) -> bool:
        return prompt_ids[: len(self.ids)] == self.ids

    def append(self, step: Step, advantage: float, trained: bool) -> None:
        start, count = len(step.prompt_ids), len(step.completion_ids)
        self.ids = step.prompt_ids + step.completion_ids
        if not trained:
            return
        if step.legal_ids:
            self.legal.append((len(self.targets), step.legal_ids))
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
    """One optimiser step's share of this rank."""

    batches: list[list[Row]]
    """Micro-batches, equally many on every rank."""
    tokens: int
    """Trained tokens of the whole update, over all ranks."""
    steps: int = 1
    """Trained model calls of the whole update, over all ranks."""
    scored: int = 0
    """Of the tokens those of rows that are forwarded."""
    reused: bool = False
    """Whether the sampler's log-probabilities stand for the old ones."""


def build_rows(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    *,
    merge: bool = True,
    mask_truncated: bool = False,
) -> list[Row]:
    """The rows of all trajectories that did not fail, in order.

    With `merge`, a step whose prompt exactly extends the row before it joins that row. Replies that are empty, or cut
    at the limit under `mask_truncated`, train nothing; rows that train nothing are left out.
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
                f"A reply in group {trajectory.group} has token ids but its prompt has none, so it cannot be trained; "
                f"the generator must return Completion.prompt_ids."
            )
        if not (merge and open_rows and open_rows[-1].extends_to(step.prompt_ids)):
            open_rows.append(_OpenRow(step.prompt_ids))
        open_rows[-1].append(step, weight, trained=not (mask_truncated and step.truncated))
    return [row.close() for row in open_rows if row.targets]


def split_updates(rows: Sequence[Row], updates: int, rng: np.random.Generator) -> list[list[Row]]:
    """Shuffles the rows into mini-batches of near-equal numbers; fewer than `updates` when there are fewer rows."""
    order = rng.permutation(len(rows))
    return [[rows[i] for i in part] for part in np.array_split(order, min(updates, len(rows)))]


def deal(rows: Sequence[Row], ranks: int) -> list[list[Row]]:
    """Shares of near-equal token counts, one per rank: longest row first, to the rank with the fewest tokens."""
    shares: list[list[Row]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in sorted(rows, key=lambda row: -row.length):
        rank = loads.index(min(loads))
        shares[rank].append(row)
        loads[rank] += row.length
    return shares


def plan_micro_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices of each micro-batch, longest rows first; rows x longest row <= `max_tokens`, or one row alone."""
    plan: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if plan and (len(plan[-1]) + 1) * longest <= max_tokens and length >= MIN_FILL * longest:
            plan[-1].append(index)
        else:
            plan.append([index])
            longest = length
    return plan


def micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """The rows in micro-batches of at most `max_tokens` tokens with padding."""
    return [[rows[i] for i in part] for part in plan_micro_batches([row.length for row in rows], max_tokens)]


def share_of(
    rows: Sequence[Row],
    rank: int,
    ranks: int,
    max_tokens: int,
    pad_id: int,
    forwards: Callable[[Row], bool] = lambda row: True,
) -> Update:
    """A rank's share of a mini-batch; rows that `forwards` refuses count in its means alone."""
    forwarded = [row for row in rows if forwards(row)]
    plans = [micro_batches(share, max_tokens) for share in deal(forwarded, ranks)]
    padding = [[filler(pad_id)]] * (max(1, *map(len, plans)) - len(plans[rank]))
    return Update(
        batches=padding + plans[rank],
        tokens=sum(len(row.targets) for row in rows),
        steps=sum(row.steps for row in rows),
        scored=sum(len(row.targets) for row in forwarded),
    )


@dataclass
class MicroBatch:
    """Rows padded on the left to (B, T); everything per trained token is flat, (N,), row after row."""

    ids: torch.Tensor
    attention: torch.Tensor
    positions: torch.Tensor
    """(B, T): position of each token in its own row."""
    rows: torch.Tensor
    """(N,): row of each trained token."""
    columns: torch.Tensor
    """(N,): its column."""
    steps: torch.Tensor
    """(N,): its model call, counted over the micro-batch."""
    lengths: torch.Tensor
    """(S,): trained tokens of each model call."""
    advantages: torch.Tensor
    old: torch.Tensor | None
    reference: torch.Tensor | None
    sampling: torch.Tensor | None
    """NaN where the sampler gave none."""
    legal_at: torch.Tensor
    """(M,): trained tokens with known legal ids."""
    legal_ids: torch.Tensor
    """(M, L): their legal ids, -1 where there are fewer than L."""


def filler(pad_id: int) -> Row:
    """Two tokens that train nothing: what a rank without rows forwards, so that all ranks work equally often."""
    nothing = np.zeros(0, np.int64)
    trained = nothing.astype(np.float32)
    return Row(np.full(2, pad_id, np.int64), nothing, trained, sampling=None, legal=(), lengths=())


def collate(rows: Sequence[Row], pad_id: int, device: torch.device | str = "cpu") -> MicroBatch:
    """Right-aligns the rows."""
    width = max(row.length for row in rows)
    ids = np.full((len(rows), width), pad_id, np.int64)
    attention = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, width - row.length :] = row.ids
        attention[index, width - row.length :] = 1
    legal_at, legal_ids = _collate_legal(rows)

    lengths = np.array([length for row in rows for length in row.lengths], np.int64)

    def tensor(array: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    def flat(parts: Sequence[Floats | None]) -> torch.Tensor | None:
        if all(part is None for part in parts):
            return None
        held = [
            np.full(len(row.targets), np.nan, np.float32) if part is None else part
            for row, part in zip(rows, parts, strict=True)
        ]
        return tensor(np.concatenate(held))

    return MicroBatch(
        ids=tensor(ids),
        attention=tensor(attention),
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
    offsets = np.cumsum([0, *(len(row.targets) for row in rows)])
    found = [(int(offsets[i]) + at, ids) for i, row in enumerate(rows) for at, ids in row.legal]
    legal_ids = np.full((len(found), max((len(ids) for _, ids in found), default=0)), -1, np.int64)
    for index, (_, ids) in enumerate(found):
        legal_ids[index, : len(ids)] = ids
    return np.array([at for at, _ in found], np.int64), legal_ids


def split_rows(values: torch.Tensor, rows: Sequence[Row]) -> list[Floats]:
    """Flat values (N,) of a collated batch, cut back into one array per row."""
    counts = [len(row.targets) for row in rows]
    array = values.detach().float().cpu().numpy()
    return [part.copy() for part in np.split(array, np.cumsum(counts)[:-1])]


def reuse_sampling(rows: Sequence[Row]) -> None:
    """Takes the sampler's log-probabilities as the old ones."""
    for row in rows:
        if len(row.targets) and (row.sampling is None or np.isnan(row.sampling).any()):
            raise ValueError(
                "reuse_sampling_logprobs=True, but the generator gives no log-probabilities; set it to False."
            )
        row.old = row.sampling
