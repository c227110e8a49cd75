"""The device, the sizes and the log of the first minutes on a GPU."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the parts."""

    shape: str = "Qwen/Qwen3-0.6B"
    """Key of `KNOWN`: the model of `gradient` and `speed`."""
    hidden: int = 512
    layers: int = 6
    heads: int = 8
    """The model of `learning`: 15.8 million weights."""
    learning_rate: float = 3e-4
    groups: int = 32
    rollouts: int = 150
    reply_tokens: int = 256
    speed_groups: int = 8
    speed_steps: int = 3
    repeats: int = 2
    """Times that the two trainers take turns."""


TINY = Sizes(
    shape="tiny",
    hidden=32,
    layers=1,
    heads=2,
    learning_rate=1e-3,
    groups=2,
    rollouts=4,
    reply_tokens=8,
    speed_groups=2,
    speed_steps=2,
    repeats=1,
)


@dataclass(kw_only=True)
class Measurement:
    """The device, the sizes, and the log of results."""

    device: torch.device
    sizes: Sizes
    log: Path
    start_time: float = field(default_factory=time.perf_counter)

    def report(self, part: str, **values: Any) -> None:
        """Print a result as a JSON line, and append it to the log."""
        line = json.dumps({"part": part, "at_s": round(time.perf_counter() - self.start_time, 1), **values})
        print(line, flush=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def on_cpu(self) -> bool:
        """Return True if the device is the CPU."""
        return self.device.type == "cpu"

    def release(self) -> None:
        """Free the memory of the models of the last part."""
        import torch

        # A trainer and its callbacks refer to each other, so only the garbage collector frees the model's memory.
        gc.collect()
        if not self.on_cpu:
            torch.cuda.empty_cache()
