"""The name of the model `words`, which may set its size. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from mage_envs.loading.arguments import call, parse
from mage_envs.loading.options import check_positive

NAME = "words"
"""Name of the model, and of the prompt style that it reads. `words:hidden=128,layers=3` sets its size."""


@dataclass(frozen=True)
class WordsSize:
    """Size of the model's transformer."""

    hidden: int = 64
    """Size of the hidden states."""
    layers: int = 2
    heads: int = 4
    """Attention heads, which share `hidden`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_positive(name, value)
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} must be a multiple of heads={self.heads}.")


def is_words(model: str) -> bool:
    """Return True if the name of a model is that of the model `words`, with or without its size."""
    return model.partition(":")[0] == NAME


def words_size(model: str) -> WordsSize:
    """Return the size that the name of the model sets. Raises ValueError if it is out of range."""
    return call(f"--model {model}", parse(model), WordsSize)
