"""A peer's environment trained on and evaluated, in a process that finds that peer's packages and ours."""

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

from benchmarks.peers.sides import ROOT, Unavailable

PEER = "textarena"
"""The side whose environment it is."""
ROW = "foreign"
"""Its name on the command line."""
RUN = "benchmarks.peers.foreign_run"


@dataclass(frozen=True)
class Evaluated:
    """What an agent reached."""

    agent: str
    played: int
    """Meta-episodes."""
    failed: int
    returns: tuple[float, ...]
    """Mean return of each episode, over the meta-episodes that did not fail."""


@dataclass(frozen=True)
class ForeignOutcome:
    """What came of training on an environment and of evaluating there."""

    updates: int
    changed: bool
    """Whether the weights differ from those before."""
    played: int
    """Meta-episodes of training."""
    failed: int
    evaluated: tuple[Evaluated, ...]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> ForeignOutcome:
        """What `asdict` and JSON made of one."""
        each = tuple(Evaluated(**{**one, "returns": tuple(one["returns"])}) for one in told["evaluated"])
        return cls(**{**told, "evaluated": each})

    def table(self, name: str) -> str:
        """The outcome as Markdown, a line per agent; `name`: the environment's."""
        weights = "changed" if self.changed else "did not change"
        lines = [
            f"{name} through the adapter `benchmarks/peers/arena_env.py`, as a meta-episode:",
            f"{self.updates} updates of the tiny model on {self.played} meta-episodes ({self.failed} failed), by which "
            f"its weights {weights}.",
            "Their replies were a script's, as that model knows no words. Then evaluated by `benchmarks.evaluate`:\n",
            "| agent | meta-episodes | failed | mean return, episode by episode |",
            "|---|---:|---:|---|",
        ]
        for one in self.evaluated:
            returns = ", ".join(f"{value:.2f}" for value in one.returns) or "n/a"
            lines.append(f"| {one.agent} | {one.played} | {one.failed} | {returns} |")
        return "\n".join(lines) + "\n"


def play(python: Path, limit: float) -> ForeignOutcome:
    """Trains and evaluates with a side's Python, to which our packages are lent. Raises Unavailable."""
    ours = (str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    lent = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(ours)), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "outcome.json"
        command = [str(python), "-m", RUN, str(written)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, **lent}, cwd=folder, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"no answer within {limit:g} s") from None
        if done.returncode:
            raise Unavailable(f"its process ended: {(done.stderr.splitlines() or ['it said nothing'])[-1]}")
        return ForeignOutcome.from_json(json.loads(written.read_text()))
