"""`mage fill`: plays a panel in order with one memory that keeps everything, and saves the memory as a bank.

A memory with `scope=run` reads the bank during evaluation, on other tasks than those that filled it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import typer

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate, progress_of
from mage_envs.benchmarks.evaluation.run.options import read_env_kwargs
from mage_envs.benchmarks.evaluation.suites import named_panel
from mage_envs.files.atomic import output_path, write_atomically
from mage_envs.wrappers.memories import as_memory, memory_settings


@runtime_checkable
class KeepsBank(Protocol):
    """A memory whose contents can be saved as a bank."""

    def bank_text(self) -> str:
        """Return the contents of the bank's file."""
        ...


def command(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent, as in mage eval")],
    panel: Annotated[str, typer.Option(metavar="NAME", help="Panel whose tasks fill the bank in the panel's order")],
    memory: Annotated[str, typer.Option(metavar="NAME", help="Memory: amem, memento, memento_trace or memento_q")],
    out: Annotated[Path, typer.Option(metavar="FILE", parser=output_path, help="File of the bank")],
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of tasks to play (default: the whole panel)")
    ] = None,
    env_kwargs: Annotated[
        Mapping[str, Any] | None,
        typer.Option(metavar="JSON", parser=read_env_kwargs, help="Further options of the environment as JSON"),
    ] = None,
) -> None:
    """Play a panel to fill the bank of a memory with scope=run.

    A memory with scope=run reads the bank during evaluation, on other tasks than those that filled it.

    Example: mage fill scripted:random --panel sokoban-train --memory memento --rows 4 --out bank.json
    """
    if out.exists():
        raise FileExistsError(f"{out} already exists. Use another file name, or remove the file.")
    player, played = make_agent(agent), named_panel(panel)
    kept = as_memory(filling(memory))
    if not isinstance(kept, KeepsBank):
        raise TypeError(f"memory={memory!r} has the option scope, but no bank_text().")
    tasks = played.tasks()[:rows]
    # Every meta-episode must share this instance. A factory that returns it passes the check that refuses shared
    # instances.
    options = {**(env_kwargs or {}), **played.env_kwargs, "memory": lambda: kept}
    # One at a time, because each meta-episode must find the entries of the earlier ones in the bank.
    done = evaluate(player, tasks, options, batch=1, on_step=progress_of(player.name))
    lost = sum(trajectory.failure is not None for trajectory in done)
    text = kept.bank_text()
    write_atomically(out, text)
    # Constructing the memory reads the file back and validates it.
    told = as_memory(f"{memory}{_joint(memory)}scope=run,bank={out}")
    sys.stdout.write(f"{out}: {len(done) - lost} meta-episodes of {panel}, {lost} lost, for {type(told).__name__}\n")


def filling(spec: str) -> str:
    """Return the specification of the same memory, kept from one meta-episode to the next.

    Raises:
        ValueError: If the memory has no bank, or if its specification sets scope or bank itself.
    """
    if "scope" not in memory_settings(spec):
        raise ValueError(f"memory={spec!r} has no bank, so it cannot be filled.")
    if "scope=" in spec or "bank=" in spec:
        raise ValueError(f"memory={spec!r}: mage fill sets scope and bank itself. Remove them.")
    return f"{spec}{_joint(spec)}scope=fill"


def _joint(spec: str) -> str:
    """Return the separator for a further option of the specification."""
    return "," if "=" in spec else ":"
