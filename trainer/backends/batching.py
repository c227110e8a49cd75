"""The probe of a local model's batches and caches: which way of playing leaves a reply as it is played alone."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedModel

from mage_envs.trainer.backends.rows import RaggedCache, WholeRow, evaluating

Way = Literal["ragged", "even", "whole"]
"""How rows are played: in any batch with a cache, in batches of equal lengths with a cache, or alone without one."""
WINDOW = 3
"""Length of an attention window while the probe runs, so that its short prompts are longer than the window."""
_LENGTH = re.compile("(window|window_size|chunk_size)$")
"""Pattern of a config's names for the length of a window."""
_LOG = logging.getLogger(__name__)


class Batching(NamedTuple):
    """What a model's own replies say about batches and caches."""

    way: Way
    """How rows are played."""
    padded: bool
    """True if a padded batch without a cache has the log-probabilities of single rows."""

    @property
    def trains(self) -> bool:
        """True if padded rows of the model can be trained."""
        return self.padded and self.way != "whole"

    def __str__(self) -> str:
        words: dict[Way, str] = {
            "ragged": "in batches of any lengths, with a cache",
            "even": "in batches of prompts of equal length only",
            "whole": "one prompt at a time and without a cache, which is slow",
        }
        return f"played {words[self.way]}"


_KNOWN: WeakKeyDictionary[PreTrainedModel, Batching] = WeakKeyDictionary()
"""Results of the probe. Weights may change in training, but no architecture does."""


def probe_batching(model: PreTrainedModel) -> Batching:
    """Play two prompts of unequal length alone, in a batch and from a cache, and return what agrees.

    A model whose batches or caches change its replies is reported once in the log.
    """
    if (known_batching := _KNOWN.get(model)) is not None:
        return known_batching
    with evaluating(model), _short_windows(model) as shortened:
        batching = _compare(model)
    # A window that the probe cannot shorten may be shorter than a prompt of a run.
    if not shortened and batching.way == "ragged":
        batching = batching._replace(way="even")
    if batching.way != "ragged":
        _LOG.warning("Model %r is %s: its other replies would differ.", model.config.name_or_path, batching)
    _KNOWN[model] = batching
    return batching


def check_full_attention(model: PreTrainedModel) -> None:
    """Raise ValueError if padding or a cache changes the model's replies, as in a state-space model."""
    if not probe_batching(model).trains:
        raise ValueError(
            f"Model {model.config.name_or_path!r} has other replies in a padded batch or from a cache than alone, so "
            f"it cannot be trained. Use a model whose layers are attention."
        )


def _compare(model: PreTrainedModel) -> Batching:
    # Few tokens, because every token costs a large model on a CPU a part of the time that it takes to load.
    prefix, suffix, longer = _ids(model, 0, 3), _ids(model, 3, 1), _ids(model, 1, 6)
    alone_logits = WholeRow(model).append([prefix + suffix])

    def agrees(play: Callable[[], torch.Tensor]) -> bool:
        try:
            return _equal(play(), alone_logits)
        # A model may refuse a cache, positions or a mask with any error.
        except Exception as error:
            _LOG.debug("The probe of a batch failed: %s", error)
            return False

    def play_ragged() -> torch.Tensor:
        # The row is padded in the first block, and has a gap before the second one.
        cache = RaggedCache(model, 2)
        cache.append([prefix, longer])
        return cache.append([suffix, longer[:4]])[:1]

    def play_even() -> torch.Tensor:
        cache = RaggedCache(model, 2)
        cache.append([prefix, longer[:3]])
        return cache.append([suffix, longer[3:4]])[:1]

    if agrees(play_ragged):
        return Batching("ragged", padded=True)
    padded = agrees(lambda: _play_padded(model, prefix + suffix, longer))
    return Batching("even" if agrees(play_even) else "whole", padded)


def _play_padded(model: PreTrainedModel, row: Sequence[int], longer: Sequence[int]) -> torch.Tensor:
    """Return the logits after the shorter row of a padded batch, (1, V)."""
    ids = torch.zeros((2, len(longer)), dtype=torch.long, device=model.device)
    ids[0, len(longer) - len(row) :], ids[1] = torch.tensor(row), torch.tensor(longer)
    mask = torch.ones_like(ids)
    mask[0, : len(longer) - len(row)] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits: torch.Tensor = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits[
        :1, -1
    ]
    return logits


def _ids(model: PreTrainedModel, start: int, count: int) -> list[int]:
    """Return ids that spread over the vocabulary."""
    embeddings: Any = model.get_input_embeddings()
    size: int = embeddings.weight.shape[0]
    return [(7919 * (start + index) + 11) % size for index in range(count)]


def _equal(logits: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return True if two rows of logits agree up to the precision of the model's numbers."""
    coarse = reference.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    # The products of bfloat16 have a relative error of .4%, and layers add up.
    tolerance = max(1e-4, 16 * torch.finfo(torch.float16 if coarse else reference.dtype).eps)
    centred, expected = (row.float() - row.float().mean() for row in (logits, reference))
    return bool((centred - expected).norm() <= tolerance * expected.norm())


@contextmanager
def _short_windows(model: PreTrainedModel) -> Iterator[bool]:
    """Shorten the attention windows of a model's config within the context; yield False if that has no effect."""
    config: Any = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    windows = {
        name: value
        for name, value in config.to_dict().items()
        # Not a count of layers with a window. A window as long as all positions never ends.
        if _LENGTH.search(name) and type(value) is int and WINDOW < value < (positions or value + 1)
    }
    if not windows:
        yield True
        return
    ids = _ids(model, 0, 3 * WINDOW)
    full_logits = WholeRow(model).append([ids])
    vars(config).update(dict.fromkeys(windows, WINDOW))
    try:
        yield not _equal(WholeRow(model).append([ids]), full_logits)
    finally:
        vars(config).update(windows)
