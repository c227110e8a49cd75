"""`mage-bench fill`: plays a panel in order with one memory that keeps everything, and saves the memory as a bank.

A memory with `scope=run` reads the bank during evaluation, on other tasks than those that filled it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from benchmarks.evaluation.run.agents import make_agent
from benchmarks.evaluation.run.evaluate import evaluate, progress_of
from benchmarks.evaluation.run.options import EvalOptions
from benchmarks.evaluation.suites import named_panel
from mage_envs.files.atomic import output_path, write_atomically
from wrappers.memories import as_memory, memory_settings


@runtime_checkable
class KeepsBank(Protocol):
    """A memory whose contents can be saved as a bank."""

    def bank_text(self) -> str:
        """Return the contents of the bank's file."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-bench fill`."""
    parser.epilog = (
        "Example: mage-bench fill scripted:random --panel sokoban-train --memory memento --rows 4 --out bank.json"
    )
    parser.add_argument("agent", metavar="AGENT", help="Agent, as in mage-bench eval")
    parser.add_argument(
        "--panel", metavar="NAME", required=True, help="Panel whose tasks fill the bank in the panel's order"
    )
    parser.add_argument(
        "--memory", metavar="NAME", required=True, help="Memory: amem, memento, memento_trace or memento_q"
    )
    parser.add_argument("--out", type=output_path, metavar="FILE", required=True, help="File of the bank")
    parser.add_argument("--rows", type=int, metavar="N", help="Number of tasks to play (default: the whole panel)")
    parser.add_argument("--env-kwargs", metavar="JSON", help="Further options of the environment as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Fill a bank, write it, and print a summary. Raise FileExistsError if the file exists."""
    out: Path = arguments.out
    if out.exists():
        raise FileExistsError(f"{out} already exists. Use another file name, or remove the file.")
    agent, panel = make_agent(arguments.agent), named_panel(arguments.panel)
    memory = as_memory(filling(arguments.memory))
    if not isinstance(memory, KeepsBank):
        raise TypeError(f"memory={arguments.memory!r} has the option scope, but no bank_text().")
    tasks = panel.tasks()[: arguments.rows]
    given = EvalOptions.from_arguments(arguments).env_kwargs or {}
    # Every meta-episode must share this instance. A factory that returns it passes the check that refuses shared
    # instances.
    options = {**given, **panel.env_kwargs, "memory": lambda: memory}
    # One at a time, because each meta-episode must find the entries of the earlier ones in the bank.
    done = evaluate(agent, tasks, options, batch=1, on_step=progress_of(agent.name))
    lost = sum(trajectory.failure is not None for trajectory in done)
    text = memory.bank_text()
    write_atomically(out, text)
    # Constructing the memory reads the file back and validates it.
    told = as_memory(f"{arguments.memory}{_joint(arguments.memory)}scope=run,bank={out}")
    sys.stdout.write(
        f"{out}: {len(done) - lost} meta-episodes of {arguments.panel}, {lost} lost, for {type(told).__name__}\n"
    )


def filling(spec: str) -> str:
    """Return the specification of the same memory, kept from one meta-episode to the next.

    Raises:
        ValueError: If the memory has no bank, or if its specification sets scope or bank itself.
    """
    if "scope" not in memory_settings(spec):
        raise ValueError(f"memory={spec!r} has no bank, so it cannot be filled.")
    if "scope=" in spec or "bank=" in spec:
        raise ValueError(f"memory={spec!r}: mage-bench fill sets scope and bank itself. Remove them.")
    return f"{spec}{_joint(spec)}scope=fill"


def _joint(spec: str) -> str:
    """Return the separator for a further option of the specification."""
    return "," if "=" in spec else ":"
