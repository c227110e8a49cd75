"""Banks of memories with scope=run: a panel is played in order with one memory that keeps everything, and is saved.

A memory with `scope=run` reads the bank during evaluation, on other tasks than those that filled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, saved_options
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate, progress_of
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.files.atomic import write_atomically
from mage_envs.loading.defaults import overrides
from mage_envs.wrappers.memories import as_memory, memory_settings
from mage_envs.wrappers.memory import Memory


def fill_bank(
    player: Agent, panel: str, memory: str, out: Path, *, rows: int | None = None, options: Mapping[str, Any]
) -> str:
    """Play a panel to fill the bank of a memory, and return a line that says what was played.

    Args:
        panel: Name of the panel, whose tasks fill the bank in their order.
        memory: Specification of the memory, such as `memento`.
        rows: Number of tasks to play, or None for the whole panel.
        options: Further options of the environment.

    Raises:
        FileExistsError: If the file exists.
        ValueError: If the memory has no bank.
    """
    if out.exists():
        raise FileExistsError(f"{out} already exists. Use another file name, or remove the file.")
    bank_panel = named_panel(panel)
    shared_memory = as_memory(filling(memory))
    if not overrides(shared_memory, Memory, "bank_text"):
        raise TypeError(f"memory={memory!r} has the option scope, but no bank_text().")
    tasks = bank_panel.tasks()[:rows]
    # Every meta-episode must share this instance. A factory that returns it passes the check that refuses shared
    # instances.
    model_options = bank_panel.filter_options(saved_options(player))
    fixed = {**model_options, **options, **bank_panel.env_kwargs, "memory": lambda: shared_memory}
    # One at a time, because each meta-episode must find the entries of the earlier ones in the bank.
    trajectories = evaluate(player, tasks, fixed, batch=1, on_step=progress_of(player.name))
    lost = sum(trajectory.failure is not None for trajectory in trajectories)
    write_atomically(out, shared_memory.bank_text())
    # Constructing the memory reads the file back and validates it.
    reader = as_memory(f"{memory}{_joint(memory)}scope=run,bank={out}")
    return f"{out}: {len(trajectories) - lost} meta-episodes of {panel}, {lost} lost, for {type(reader).__name__}\n"


def filling(spec: str) -> str:
    """Return the specification of the same memory, kept from one meta-episode to the next.

    Raises:
        ValueError: If the memory has no bank, or if its specification sets scope or bank itself.
    """
    if "scope" not in memory_settings(spec):
        raise ValueError(f"memory={spec!r} has no bank, so it cannot be filled.")
    if "scope=" in spec or "bank=" in spec:
        raise ValueError(f"memory={spec!r}: --fill sets scope and bank itself. Remove them.")
    return f"{spec}{_joint(spec)}scope=fill"


def _joint(spec: str) -> str:
    """Return the separator for a further option of the specification."""
    return "," if "=" in spec else ":"
