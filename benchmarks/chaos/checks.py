"""The checks of `mage-bench chaos` that run within one process: each tries one seed, and raises what it finds."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np

from benchmarks.chaos.playing import (
    Env,
    Finding,
    FuzzedReplies,
    Make,
    episodes_of,
    require_equal,
    rest_of,
    rows_of,
    text_of,
)
from mage_envs.core import Task
from mage_envs.testing import scripted_reply
from trainer.generation import ScriptedGenerator
from trainer.rollout import RolloutSpec, collect

Check = Callable[[Make, int], None]
WARM_PASSES, PASSES, PER_PASS = 3, 5, 6
"""Of the memory check, which plays the same episodes again and again; the first passes fill caches."""
MOST_FUZZED = 100
"""Episodes of one seed of the fuzz check."""
LEAK = 256
"""Bytes per episode, in every pass, from which memory is said to grow."""


def plays(make: Make, seed: int) -> None:
    """Legal answers, now and then an illegal one: no exception, finite returns, an end."""
    episodes_of(make, seed)


def is_fuzzed(make: Make, seed: int) -> None:
    """Garbage and spoilt answers, each once, in as many episodes as that takes."""
    env, reply = make(), FuzzedReplies(np.random.default_rng(seed))
    for episode in range(MOST_FUZZED):
        for _ in rows_of(env, seed + episode, reply):
            pass
        if not reply.left:
            return


def forgets(make: Make, seed: int) -> None:
    """Other episodes before, of this environment and of another, change nothing."""
    expected = list(rows_of(make(), seed))
    used = make()
    for other in (make(), used):
        list(rows_of(other, seed + 1))
    require_equal(
        list(rows_of(used, seed)), expected, "after another episode the same seed and answers gave another one"
    )


def interleaves(make: Make, seed: int) -> None:
    """Two environments in turns play as each does alone."""
    expected = [list(rows_of(make(), seed)), list(rows_of(make(), seed + 1))]
    pairs = list(zip_longest(rows_of(make(), seed), rows_of(make(), seed + 1)))
    for alone, both in zip(expected, zip(*pairs, strict=True), strict=True):
        rows = [row for row in both if row is not None]
        require_equal(rows, alone, "beside a second environment the same seed and answers gave another episode")


def _pickled(env: Env) -> Env:
    copy: Env = pickle.loads(pickle.dumps(env))
    return copy


def copies(make: Make, seed: int) -> None:
    """A copy that is made after some answers goes on as the original does, and does not disturb it."""
    for how, copied in (("deepcopy", deepcopy), ("pickle", _pickled)):
        for answers in range(3):
            env, alone = make(), make()
            _, info = env.reset(seed=seed)
            alone.reset(seed=seed)
            rng = np.random.default_rng(seed)
            for _ in range(answers):
                reply = scripted_reply(info, rng)
                _, _, terminated, truncated, info = env.step(reply)
                alone.step(reply)
                if terminated or truncated:
                    break
            else:
                expected = list(rest_of(alone, info, np.random.default_rng(seed)))
                copy: Env = copied(env)
                for name, one in ((f"a {how}", copy), (f"the original beside its {how}", env)):
                    rows = list(rest_of(one, info, np.random.default_rng(seed)))
                    require_equal(rows, expected, f"{name}, after {answers} answers, went on differently")


def batches(make: Make, seed: int) -> None:
    """The rollout loop gives the same trajectories one by one and many at a time."""
    specs = [RolloutSpec(Task("", seed=seed + number)) for number in range(5)]
    # Each prompt is answered by its own key, whatever else is in the batch.
    scripted = ScriptedGenerator(lambda prompt: scripted_reply(dict(prompt.info), np.random.default_rng(prompt.seed)))
    played = []
    for size in (1, 2, 5):
        trajectories = collect([make() for _ in range(size)], scripted, specs)
        for trajectory in trajectories:
            if trajectory.failure is not None:
                raise Finding(f"a rollout failed: {trajectory.failure}")
        played.append([text_of((t.opponent, t.steps, t.episodes)) for t in trajectories])
    for size, rows in zip((2, 5), played[1:], strict=True):
        require_equal(rows, played[0], f"{size} at a time the rollout loop gave other trajectories than one by one")


def keeps_memory(make: Make, seed: int) -> None:
    """Python's memory does not grow with episodes that were played before."""
    env = make()

    def passed() -> int:
        """Bytes in use after the same episodes once more."""
        for number in range(PER_PASS):
            for _ in rows_of(env, seed + number):
                pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        for _ in range(WARM_PASSES):
            passed()
        before = tracemalloc.take_snapshot()
        held = [passed() for _ in range(PASSES)]
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    grown = min(later - earlier for earlier, later in pairwise(held)) / PER_PASS
    if grown > LEAK:
        most = after.compare_to(before, "lineno")[0].traceback[0]
        place = f"{Path(most.filename).name}:{most.lineno}"
        raise Finding(f"memory grows by {grown:.0f} bytes an episode, for the most part in {place}")


CHECKS: Mapping[str, Check] = {
    "play": plays,
    "fuzz": is_fuzzed,
    "order": forgets,
    "interleaving": interleaves,
    "copies": copies,
    "batch": batches,
    "memory": keeps_memory,
}
"""By the name that `--check` takes, in the order of the table."""
ONCE = {"memory"}
"""Checks that play many seeds by themselves."""
