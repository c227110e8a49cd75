"""`FreeText`: a space of any string. Gymnasium's own `Text` rejects blanks and newlines by default, and is slow."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import create_shared_memory

_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789 ,.()<>/\n"))


class FreeText(gym.Space[str]):
    """The space of all strings. Samples are short random texts."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a random text of 1 to 24 characters. Masks have no meaning here and must be None."""
        if mask is not None or probability is not None:
            raise ValueError("FreeText.sample takes no mask and no probability: the space has no finite set to mask.")
        size = int(self.np_random.integers(1, 25))
        return "".join(self.np_random.choice(_LETTERS, size=size))

    def contains(self, x: object) -> bool:
        return isinstance(x, str)

    def __repr__(self) -> str:
        return "FreeText()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText)

    def __hash__(self) -> int:
        return hash(FreeText)


@create_shared_memory.register(FreeText)
def _refuse_shared_memory(space: FreeText, n: int = 1, ctx: Any = None) -> Any:
    """Raise ValueError, because Gymnasium shares arrays only. Its own error does not say where to set the option."""
    raise ValueError(
        'vectorization_mode="async" shares observations as arrays, and these are texts. Add '
        'vector_kwargs={"shared_memory": False}, or use gym.make_vec(id, num_envs, workers=N) without a mode, which is '
        "faster."
    )
