"""Rows of a batch in a local model: a ragged key-value cache, and a single row without a cache.

Shapes: B rows, C columns of the cache, V vocabulary entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer


class RaggedCache:
    """Keys and values of a batch of rows with different lengths, which grow together.

    Each `append` adds a block of columns, as wide as the longest new part. Shorter parts are right-aligned in it, and
    the rest is masked. So a row's last token is in the last column of the block, and positions are counted per row.
    """

    def __init__(self, model: PreTrainedModel, rows: int) -> None:
        self.model = model
        self.cache = DynamicCache()
        self.mask = np.zeros((rows, 0), np.int64)
        """(B, C): 1 where the row has a token in the column."""
        self.lengths = np.zeros(rows, np.int64)
        """(B,): tokens of each row."""

    def append(self, new: Sequence[Sequence[int]]) -> torch.Tensor:
        """Forward the new ids of each row. Return the logits after the last one, (B, V); undefined without new ids."""
        distinct = {tuple(part): row for row, part in enumerate(dict.fromkeys(map(tuple, new)))}
        if self.mask.shape[1] or len(distinct) == len(new):
            return self._forward(new)
        # The members of a group begin with the same prompt. In an empty cache it is forwarded once.
        rows = [distinct[tuple(part)] for part in new]
        self.mask, self.lengths = self.mask[: len(distinct)], self.lengths[: len(distinct)]
        logits = self._forward(list(distinct))
        self.select(rows)
        return logits[rows]

    def _forward(self, new: Sequence[Sequence[int]]) -> torch.Tensor:
        width = max(map(len, new))
        ids = np.zeros((len(new), width), np.int64)
        mask = np.zeros_like(ids)
        for row, part in enumerate(new):
            if part:
                ids[row, width - len(part) :] = part
                mask[row, width - len(part) :] = 1
        # Positions continue the row's own count, because columns include gaps. Masked ids get a valid position, too.
        positions = np.maximum(self.lengths[:, None] + mask.cumsum(1) - 1, 0)
        self.mask = np.concatenate([self.mask, mask], axis=1)
        self.lengths = self.lengths + mask.sum(1)
        output = self.model(
            input_ids=self._tensor(ids),
            attention_mask=self._tensor(self.mask),
            position_ids=self._tensor(positions),
            past_key_values=self.cache,
            use_cache=True,
            # As an index and not as a number of columns: torch multiplies a slice of the hidden states by a copy of
            # the output matrix per row, which takes longer than all layers together.
            logits_to_keep=self._tensor(np.array([width - 1])),
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def forget(self, row: int) -> None:
        """Empty a row. Its columns remain, masked."""
        self.mask[row] = 0
        self.lengths[row] = 0

    def select(self, rows: Sequence[int]) -> None:
        """Keep the given rows, in the given order."""
        # Usually every slot continues in the same order, and a copy of the whole cache is avoided.
        if list(rows) == list(range(len(self.lengths))):
            return
        self.cache.batch_select_indices(self._tensor(np.array(rows, np.int64)))
        self.mask, self.lengths = self.mask[rows], self.lengths[rows]

    def compact(self, sparsity: float = 2.0) -> None:
        """Remove masked gaps if there are over `sparsity` times as many columns as the longest row has tokens."""
        width = int(self.lengths.max(initial=0))
        # Compaction copies the whole cache, so a few spare columns (8) are tolerated in short conversations.
        if self.mask.shape[1] <= max(sparsity * width, width + 8):
            return
        # A stable sort of 0 before 1 moves the tokens to the right, and preserves their order.
        order = np.argsort(self.mask, axis=1, kind="stable")[:, self.mask.shape[1] - width :]
        columns = self._tensor(order)[:, None, :, None]
        for layer in self.cache.layers:
            if isinstance(layer, DynamicLayer) and layer.keys is not None and layer.values is not None:
                layer.keys = torch.take_along_dim(layer.keys, columns, dim=2)
                layer.values = torch.take_along_dim(layer.values, columns, dim=2)
        self.mask = np.take_along_axis(self.mask, order, axis=1)

    def _tensor(self, array: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.model.device)


class WholeRow:
    """One row of a model that is forwarded from its beginning for each token, for models without a usable cache."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.ids: list[int] = []
        """Ids of the row."""

    def append(self, new: Sequence[Sequence[int]]) -> torch.Tensor:
        """Forward the whole row with the new ids. Return the logits after the last one, (1, V)."""
        [part] = new
        self.ids += part
        ids = torch.tensor([self.ids], device=self.model.device)
        logits: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits[:, -1]
        return logits


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Disable dropout and gradients within the context."""
    # In train mode, gradient checkpointing would also disable the key-value cache.
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def disable_functional_dropout(model: torch.nn.Module) -> None:
    """Set every probability of dropout to 0 that is a number in a module or in the config that it reads.

    TRL's option `disable_dropout` reaches modules of the class `nn.Dropout` only. Most attention layers use a number
    instead, such as `attention_dropout`. The config of the saved model has 0, too.
    """
    for module in model.modules():
        for owner in (module, getattr(module, "config", module)):
            for name, value in vars(owner).items():
                if "drop" in name and isinstance(value, float):
                    setattr(owner, name, 0.0)
