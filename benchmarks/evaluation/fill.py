"""`mage-bench fill`: plays a panel in its order with one memory that keeps everything, and saves it as a bank.

A bank is what a memory with `scope=run` reads while it is evaluated, on tasks other than those that filled it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from benchmarks.evaluation.agents import make_agent
from benchmarks.evaluation.evaluate import evaluate, progress_of
from benchmarks.evaluation.suites import named_panel
from mage_envs.durable import output_path, write_atomically
from mage_envs.terminal.json_options import read_object
from wrappers.memories import as_memory, memory_settings


@runtime_checkable
class KeepsBank(Protocol):
    """A memory that can be filled."""

    def bank_text(self) -> str:
        """What the bank's file holds."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench fill`."""
    parser.epilog = (
        "Example: mage-bench fill scripted:random --panel sokoban-train --memory memento --rows 4 --out bank.json"
    )
    parser.add_argument("agent", metavar="AGENT", help="as in mage-bench eval")
    parser.add_argument("--panel", metavar="NAME", required=True, help="whose tasks fill the bank, in their order")
    parser.add_argument("--memory", metavar="NAME", required=True, help="amem, memento, memento_trace or memento_q")
    parser.add_argument("--out", type=output_path, metavar="FILE", required=True, help="the bank")
    parser.add_argument("--rows", type=int, metavar="N", help="the panel's first N tasks alone")
    parser.add_argument("--env-kwargs", metavar="JSON", help="further options of the environment")


def run(arguments: argparse.Namespace) -> None:
    """Fills a bank and writes it, with its SHA-256 on stdout. Raises FileExistsError rather than replace a file."""
    out: Path = arguments.out
    if out.exists():
        raise FileExistsError(f"{out} is there already; name another file, or remove it.")
    agent, panel = make_agent(arguments.agent), named_panel(arguments.panel)
    memory = as_memory(filling(arguments.memory))
    if not isinstance(memory, KeepsBank):
        raise TypeError(f"memory={arguments.memory!r} has the option scope, but no bank_text().")
    tasks = panel.tasks()[: arguments.rows]
    given = read_object("--env-kwargs", arguments.env_kwargs, '{"num_episodes": 5}')
    options = {**given, **panel.env_kwargs, "memory": lambda: memory}
    done = evaluate(agent, tasks, options, batch=1, on_step=progress_of(agent.name))
    lost = sum(trajectory.failure is not None for trajectory in done)
    text = memory.bank_text()
    write_atomically(out, text)
    told = as_memory(f"{arguments.memory}{_joint(arguments.memory)}scope=run,bank={out}")  # reads it back, checked
    sys.stdout.write(
        f"{out}: {len(done) - lost} meta-episodes of {arguments.panel}, {lost} lost, for {type(told).__name__}\n"
    )


def filling(spec: str) -> str:
    """The specification of the same memory, kept from one meta-episode to the next.

    Raises ValueError where it says its scope or bank itself, or has none.
    """
    if "scope" not in memory_settings(spec):
        raise ValueError(f"memory={spec!r} keeps no bank; it needs no filling.")
    if "scope=" in spec or "bank=" in spec:
        raise ValueError(f"memory={spec!r}: mage-bench fill sets scope and bank itself; leave them out.")
    return f"{spec}{_joint(spec)}scope=fill"


def _joint(spec: str) -> str:
    return "," if "=" in spec else ":"
