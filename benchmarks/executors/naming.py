"""Executors by name, for `--executor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated, cast

import typer

from mage_envs.benchmarks.executors.jobs import Executor
from mage_envs.benchmarks.executors.on_this_machine import Local, Processes
from mage_envs.loading.arguments import Rest, call, parse
from mage_envs.loading.imports import load_entry

_CLUSTERS = {
    "ray": "a Ray cluster that is started here and ends with the command",
    "ray:ADDRESS": "a running Ray cluster, as in ray:auto or ray:10.0.0.1:6379",
    "slurm:PARTITION": "array jobs in a Slurm queue, from a folder that all nodes see",
}
CLUSTERS = "mage_envs.benchmarks.clusters"
HAS_CLUSTERS = find_spec(CLUSTERS) is not None
"""False in a copy without that folder."""
FORMS: Mapping[str, str] = {
    "local": "this process",
    "processes:N": "N processes of this machine",
    **(_CLUSTERS if HAS_CLUSTERS else {}),
}
"""Forms of a specification that `make_executor` accepts, with a description of each."""
EXECUTOR_HELP = f"Executor of the work: {', '.join(FORMS)}"
"""Help of `--executor` without its default, for commands with another default than `local`."""
ExecutorOption = Annotated[str, typer.Option(metavar="WHERE", help=f"{EXECUTOR_HELP} (default: local)")]
"""Type of the parameter `executor: ExecutorOption = "local"` of a command."""


def make_executor(spec: str) -> Executor:
    """Return the executor for a name in one of `FORMS`. Raise ValueError or ImportError with the remedy."""
    parsed = parse(spec)
    if parsed.name not in _BUILDERS:
        near = get_close_matches(parsed.name, _BUILDERS, n=1)
        hint = f" Did you mean {next(form for form in FORMS if form.startswith(near[0]))}?" if near else ""
        raise ValueError(f"Unknown executor {spec!r}.{hint} The forms are {', '.join(FORMS)}.")
    return call(f"Executor {spec!r}", parsed, _BUILDERS[parsed.name])


# By name, because ray and submitit are optional dependencies, and a copy may be without the folder.
def _ray(address: Rest | None = None) -> Executor:
    _need("ray", "ray")
    return cast(Executor, load_entry(f"{CLUSTERS}.ray_cluster:RayCluster")(address))


def _slurm(partition: Rest) -> Executor:
    _need("slurm", "submitit")
    return cast(Executor, load_entry(f"{CLUSTERS}.slurm:SlurmQueue")(partition))


_BUILDERS: Mapping[str, Callable[..., Executor]] = {
    "local": Local,
    "processes": Processes,
    **({"ray": _ray, "slurm": _slurm} if HAS_CLUSTERS else {}),
}


def _need(name: str, package: str) -> None:
    if find_spec(package) is None:
        raise ImportError(f'Executor {name!r} requires {package}. Install it with: pip install "mage-envs[{name}]"')
