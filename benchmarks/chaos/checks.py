"""Checks of `mage check` that run in one process: those of `mage_envs.testing`, batches and memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from mage_envs import testing
from mage_envs.core import Task
from mage_envs.testing import Check, Finding, Make, require_equal, rows_of, sample_reply, text_of
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

WARM_PASSES, PASSES, PER_PASS = 3, 5, 6
"""Warm-up passes, measured passes and episodes per pass of the memory check. The warm-up fills caches."""
LEAK = 256
"""Growth in bytes per episode that counts as a leak if every measured pass exceeds it."""


def batches(make: Make, seed: int) -> None:
    """Raise Finding if the rollout loop returns other trajectories for 2 or 5 environments than for one."""
    specs = [RolloutSpec(Task("", seed=seed + number)) for number in range(5)]
    # The reply depends only on the prompt's own key, so the batch's composition cannot change it.
    scripted = ScriptedGenerator(lambda prompt: sample_reply(dict(prompt.info), np.random.default_rng(prompt.seed)))
    texts_by_size = []
    for size in (1, 2, 5):
        trajectories = collect([make() for _ in range(size)], scripted, specs)
        for trajectory in trajectories:
            if trajectory.failure is not None:
                raise Finding(f"a rollout failed: {trajectory.failure}")
        texts_by_size.append([text_of((t.opponent, t.steps, t.episodes)) for t in trajectories])
    for size, rows in zip((2, 5), texts_by_size[1:], strict=True):
        require_equal(
            rows, texts_by_size[0], f"with {size} environments the rollout loop gave other trajectories than with one"
        )


def keeps_memory(make: Make, seed: int) -> None:
    """Raise Finding if Python's memory grows when the same episodes are repeated."""
    env = make()

    def run_pass() -> int:
        """Play the same episodes once more and return the bytes in use afterwards."""
        for number in range(PER_PASS):
            for _ in rows_of(env, seed + number):
                pass
        # Cycles that only wait for the collector are not a leak.
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        for _ in range(WARM_PASSES):
            run_pass()
        first_snapshot = tracemalloc.take_snapshot()
        sizes = [run_pass() for _ in range(PASSES)]
        last_snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # The smallest growth: a cache that is enlarged once makes one pass large, a leak enlarges all of them.
    grown = min(next_size - size for size, next_size in pairwise(sizes)) / PER_PASS
    if grown > LEAK:
        frame = last_snapshot.compare_to(first_snapshot, "lineno")[0].traceback[0]
        location = f"{Path(frame.filename).name}:{frame.lineno}"
        raise Finding(f"memory grows by {grown:.0f} bytes per episode, mostly in {location}")


CHECKS: Mapping[str, Check] = {**testing.CHECKS, "batch": batches, "memory": keeps_memory}
"""Checks by their name in `--check`, in the order of the printed table."""
ONCE = {"memory", "recall"}
"""Checks that run once per request: they play several seeds themselves, or do not depend on the seed."""
