"""Cost of a memory in a play call: CPU time of rendering ten notes (`python -m dev.speed.memory`)."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym

from mage_envs.wrappers import MemoryView, MetaEpisode
from mage_envs.wrappers.baselines.amem import AMem

TARGET = 1.0
"""Target in milliseconds per play call, with the encoder `hash` and ten notes."""
CALLS = 300
"""Number of timed renderings."""


def answer(info: dict[str, Any], number: int) -> str:
    """Return a well-formed reply."""
    if info["kind"] == "note":
        words = [f"word{number}", "second", "third"]
        return json.dumps({"keywords": words, "context": f"Attempt {number}.", "tags": words})
    return "{}" if info["kind"] == "link" else "<action>search[granola bars]</action>"


def fill_memory(env_id: str, **options: Any) -> MetaEpisode:
    """Return a meta-episode in its eleventh episode, with ten notes in memory."""
    env = gym.make(env_id, disable_env_checker=True, memory="amem", num_episodes=12, **options)
    # The benchmark needs the memory itself, which other wrappers of `gym.make` hide.
    inner: Any = env
    while not isinstance(inner, MetaEpisode):
        inner = inner.env
    _, info = inner.reset(seed=0)
    for number in range(1000):
        if info["episode_index"] == 10 and info["kind"] == "play":
            break
        *_, info = inner.step(answer(info, number))
    return inner


def milliseconds(memory: AMem, view: MemoryView) -> float:
    """Return the CPU milliseconds of rendering the memory once, the mean over `CALLS` different observations."""
    if view.turn is None:
        raise ValueError("The memory must be rendered in a play call, but the view has no turn.")
    turn = view.turn
    # Different observations, so that no cache could serve a repeated query.
    views = [view._replace(turn=turn._replace(observation=f"{turn.observation} {n}")) for n in range(CALLS)]
    start_time = time.process_time()
    for play_view in views:
        memory.render(play_view)
    return (time.process_time() - start_time) / CALLS * 1000


def main() -> None:
    """Print one line per game."""
    for env_id, options in (("mage/WebShop-Meta-v0", {"size": "tiny"}), ("mage/Sokoban-Meta-v0", {})):
        env = fill_memory(env_id, **options)
        memory, view = env.memory, env.memory_view()
        if not isinstance(memory, AMem):
            raise TypeError(f"The environment must use the memory amem, got {type(memory).__name__}.")
        print(f"{env_id}: {len(memory.notes)} notes, {milliseconds(memory, view):.2f} ms (target {TARGET:g} ms)")


if __name__ == "__main__":
    main()
