"""Checks of `mage chaos` that run in one process. Each check tries one seed and raises if it fails."""

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
from trainer.backends.generation import ScriptedGenerator
from trainer.rollout.rollout import RolloutSpec, collect

Check = Callable[[Make, int], None]
WARM_PASSES, PASSES, PER_PASS = 3, 5, 6
"""Warm-up passes, measured passes and episodes per pass of the memory check. The warm-up fills caches."""
MOST_FUZZED = 100
"""Maximum number of episodes per seed in the fuzz check."""
LEAK = 256
"""Growth in bytes per episode that counts as a leak if every measured pass exceeds it."""


def plays(make: Make, seed: int) -> None:
    """Play legal and occasional illegal replies. Raise if a call raises, a return is not finite or no episode ends."""
    episodes_of(make, seed)


def is_fuzzed(make: Make, seed: int) -> None:
    """Send every garbage text once, alone and inside a legal action, in at most `MOST_FUZZED` episodes."""
    env, reply = make(), FuzzedReplies(np.random.default_rng(seed))
    # Half of the replies are legal, so one episode rarely has room for all texts.
    for episode in range(MOST_FUZZED):
        for _ in rows_of(env, seed + episode, reply):
            pass
        if not reply.left:
            return


def forgets(make: Make, seed: int) -> None:
    """Raise Finding if an earlier episode, of this environment or another one, changes the episode of a seed."""
    expected = list(rows_of(make(), seed))
    used = make()
    # State that survives in globals shows after `make()`, state that survives in the object after `used`.
    for other in (make(), used):
        list(rows_of(other, seed + 1))
    require_equal(
        list(rows_of(used, seed)), expected, "after another episode, the same seed and replies gave a different one"
    )


def interleaves(make: Make, seed: int) -> None:
    """Raise Finding if two environments that step alternately play differently than each one alone."""
    expected = [list(rows_of(make(), seed)), list(rows_of(make(), seed + 1))]
    # rows_of is a generator that steps once per row, so zipping two of them alternates their steps.
    pairs = list(zip_longest(rows_of(make(), seed), rows_of(make(), seed + 1)))
    for alone, both in zip(expected, zip(*pairs, strict=True), strict=True):
        rows = [row for row in both if row is not None]
        require_equal(rows, alone, "beside a second environment, the same seed and replies gave a different episode")


def _pickled(env: Env) -> Env:
    copy: Env = pickle.loads(pickle.dumps(env))
    return copy


def copies(make: Make, seed: int) -> None:
    """Raise Finding if a copy made after 0 to 2 replies continues differently, or disturbs the original."""
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
            # A for loop's else: an episode that ended within these replies leaves nothing to compare.
            else:
                expected = list(rest_of(alone, info, np.random.default_rng(seed)))
                copy: Env = copied(env)
                # The copy plays first, so that state it shares with the original shows in the original's rows.
                for name, one in ((f"a {how}", copy), (f"the original beside its {how}", env)):
                    rows = list(rest_of(one, info, np.random.default_rng(seed)))
                    require_equal(rows, expected, f"{name}, after {answers} replies, continued differently")


def batches(make: Make, seed: int) -> None:
    """Raise Finding if the rollout loop returns other trajectories for 2 or 5 environments than for one."""
    specs = [RolloutSpec(Task("", seed=seed + number)) for number in range(5)]
    # The reply depends only on the prompt's own key, so the batch's composition cannot change it.
    scripted = ScriptedGenerator(lambda prompt: scripted_reply(dict(prompt.info), np.random.default_rng(prompt.seed)))
    played = []
    for size in (1, 2, 5):
        trajectories = collect([make() for _ in range(size)], scripted, specs)
        for trajectory in trajectories:
            if trajectory.failure is not None:
                raise Finding(f"a rollout failed: {trajectory.failure}")
        played.append([text_of((t.opponent, t.steps, t.episodes)) for t in trajectories])
    for size, rows in zip((2, 5), played[1:], strict=True):
        require_equal(
            rows, played[0], f"with {size} environments the rollout loop gave other trajectories than with one"
        )


def keeps_memory(make: Make, seed: int) -> None:
    """Raise Finding if Python's memory grows when the same episodes are repeated."""
    env = make()

    def passed() -> int:
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
            passed()
        before = tracemalloc.take_snapshot()
        held = [passed() for _ in range(PASSES)]
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # The smallest growth: a cache that is enlarged once makes one pass large, a leak enlarges all of them.
    grown = min(later - earlier for earlier, later in pairwise(held)) / PER_PASS
    if grown > LEAK:
        most = after.compare_to(before, "lineno")[0].traceback[0]
        place = f"{Path(most.filename).name}:{most.lineno}"
        raise Finding(f"memory grows by {grown:.0f} bytes per episode, mostly in {place}")


CHECKS: Mapping[str, Check] = {
    "play": plays,
    "fuzz": is_fuzzed,
    "order": forgets,
    "interleaving": interleaves,
    "copies": copies,
    "batch": batches,
    "memory": keeps_memory,
}
"""Checks by their name in `--check`, in the order of the printed table."""
ONCE = {"memory"}
"""Checks that run once per request because they play several seeds themselves."""
