"""Executors by name, for `--executor`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated

import typer

from benchmarks.executors.jobs import Executor
from benchmarks.executors.on_this_machine import Local, Processes

FORMS: Mapping[str, str] = {
    "local": "this process",
    "processes:N": "N processes of this machine",
    "ray": "a Ray cluster that is started here and ends with the command",
    "ray:ADDRESS": "a running Ray cluster, as in ray:auto or ray:10.0.0.1:6379",
    "slurm:PARTITION": "array jobs in a Slurm queue, from a folder that all nodes see",
}
"""Forms of a name that `make_executor` accepts, with a description of each."""
EXECUTOR_HELP = f"executor of the work: {', '.join(FORMS)}"
"""Help of `--executor` without its default, for commands with another default than `local`."""
ExecutorOption = Annotated[str, typer.Option(metavar="WHERE", help=f"{EXECUTOR_HELP} (default: local)")]
"""Type of the parameter `executor: ExecutorOption = "local"` of a command."""


def make_executor(spec: str) -> Executor:
    """Return the executor for a name in one of `FORMS`. Raise ValueError or ImportError with the remedy."""
    kind, colon, rest = spec.partition(":")
    if spec == "local":
        return Local()
    if kind == "processes" and rest.isdecimal() and int(rest) > 0:
        return Processes(int(rest))
    # Imported here, because ray and submitit are optional dependencies.
    if kind == "ray" and (rest or not colon):
        _need("ray", spec)
        from benchmarks.executors.ray_cluster import RayCluster

        return RayCluster(rest or None)
    if kind == "slurm" and rest:
        _need("submitit", spec, "slurm")
        from benchmarks.executors.slurm import SlurmQueue

        return SlurmQueue(rest)
    near = get_close_matches(kind, [form.partition(":")[0] for form in FORMS], n=1)
    hint = f" Did you mean {next(form for form in FORMS if form.startswith(near[0]))}?" if near else ""
    raise ValueError(f"Unknown executor {spec!r}.{hint} The forms are {', '.join(FORMS)}.")


def _need(package: str, spec: str, extra: str | None = None) -> None:
    if find_spec(package) is None:
        raise ImportError(
            f'Executor {spec!r} requires {package}. Install it with: pip install "mage-envs[{extra or package}]"'
        )


def all_cores() -> str:
    """Return the name of the executor that uses all cores of this machine."""
    cores = os.cpu_count() or 1
    return f"processes:{cores}" if cores > 1 else "local"
