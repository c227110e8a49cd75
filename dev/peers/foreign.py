"""Training and evaluation on a peer's environment, in a process that finds the peer's packages and ours."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.peers.sides import ROOT, Unavailable

PEER = "textarena"
"""Key of the side whose environment is used."""
ROW = "foreign"
"""Name of this measurement on the command line."""
RUN = "dev.peers.foreign_run"


@dataclass(frozen=True)
class Evaluated:
    """Result of one agent."""

    agent: str
    played: int
    """Number of meta-episodes, including failed ones."""
    failed: int
    returns: tuple[float, ...]
    """Mean return of each episode over the meta-episodes that did not fail."""


@dataclass(frozen=True)
class ForeignOutcome:
    """Result of training and evaluation on an environment."""

    updates: int
    changed: bool
    """True if training changed the weights."""
    played: int
    """Number of training meta-episodes, including failed ones."""
    failed: int
    evaluated: tuple[Evaluated, ...]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ForeignOutcome:
        """Return the outcome from the JSON values of `asdict`."""
        # JSON has no tuples, so the returns are lists.
        evaluated = tuple(Evaluated(**{**entry, "returns": tuple(entry["returns"])}) for entry in values["evaluated"])
        return cls(**{**values, "evaluated": evaluated})

    def table(self, name: str) -> str:
        """Return the outcome as Markdown, with one line per agent. `name` is the environment's name."""
        weights = "changed" if self.changed else "did not change"
        lines = [
            f"{name} through the adapter `dev/peers/arena_env.py`, as a meta-episode:",
            f"{self.updates} updates of the tiny model on {self.played} meta-episodes ({self.failed} failed), by which "
            f"its weights {weights}.",
            "Their replies were a script's, as that model knows no words. Then evaluated by "
            "`mage_envs.benchmarks.evaluate`:\n",
            "| agent | meta-episodes | failed | mean return, episode by episode |",
            "|---|---:|---:|---|",
        ]
        for entry in self.evaluated:
            returns = ", ".join(f"{value:.2f}" for value in entry.returns) or "n/a"
            lines.append(f"| {entry.agent} | {entry.played} | {entry.failed} | {returns} |")
        return "\n".join(lines) + "\n"


def play(python: Path, limit: float) -> ForeignOutcome:
    """Train and evaluate with a side's Python.

    Args:
        python: Python of the side's virtual environment.

    Raises:
        Unavailable: If the process fails or does not end within `limit` seconds.
    """
    # Our packages are added by PYTHONPATH, because installing them, too, would take minutes.
    ours = (str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    lent = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(ours)), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "outcome.json"
        command = [str(python), "-m", RUN, str(written)]
        # The working directory is temporary, so that the process does not import packages from the user's.
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, **lent}, cwd=folder, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"no answer within {limit:g} s") from None
        if process.returncode:
            raise Unavailable(f"its process ended: {(process.stderr.splitlines() or ['it said nothing'])[-1]}")
        return ForeignOutcome.from_json(json.loads(written.read_text()))
