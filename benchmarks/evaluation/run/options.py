"""`EvalOptions`: the options of an evaluation, with their types and defaults, and the flags that set them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from benchmarks.evaluation.run.sampling import read_sampling
from benchmarks.executors import add_option
from mage_envs.cli.json_options import read_object
from mage_envs.processes import CALL_TIMEOUT_S

ROWS = 64
"""Default number of meta-episodes per opponent and first seat, unless a named panel fixes it."""


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """Options of an evaluation.

    A command creates them from its flags with `from_arguments`, so that only the command knows its parser. None means
    that the user did not choose: the agent, the panel or the environment then decides.
    """

    agents: tuple[str, ...] = ()
    """Agents as `mage-bench eval` names them, each with an optional memory after a plus sign."""
    env: str | None = None
    """Id of the environment, which ends with -Meta-v0."""
    env_kwargs: Mapping[str, Any] | None = None
    """Options of the environment from `--env-kwargs`."""
    protocol: str | None = None
    num_episodes: int | None = None
    memory: str | None = None
    context: str | None = None
    style: str | None = None
    panel: str | None = None
    """Name of a panel. It fixes the environment, the opponents, the rows and the seed."""
    opponents: str | None = None
    """`pool:NAME`, or names of opponents. If it is None, the panel's or the game's default opponents play."""
    rows: int | None = None
    """Number of meta-episodes per opponent and first seat. If it is None, the panel decides, else `ROWS`."""
    seed: int | None = None
    """Seed of the panel."""
    control: str | None = None
    """Control of the memory, one of `controls.NAMES`."""
    source: str | None = None
    """Folder of the run from which the control `other` copies memories."""
    sampling: Mapping[str, float] | None = None
    """Sampling of a model's replies."""
    batch: int = 256
    """Number of concurrent meta-episodes."""
    env_workers: int = 0
    """Number of worker processes for the environments (0: none)."""
    env_memory_gb: float = 0.0
    """Address space of each worker in GiB (0: no limit)."""
    env_timeout: float = CALL_TIMEOUT_S
    """Timeout in seconds per environment step, opponents included (0: none)."""
    executor: str = "local"
    """Name of the executor, for `make_executor`."""
    max_calls: int | None = None
    """Maximum number of model calls."""
    max_tokens: int | None = None
    """Maximum number of tokens of prompts and replies together."""
    max_minutes: float | None = None
    """Time limit in minutes."""
    baselines: bool = True
    """True to play the baselines if the game has repeated tasks."""
    out: Path | None = None
    """Folder of the run, or None to store nothing."""
    resume: bool = False
    """True to play the missing and failed meta-episodes of `out`."""

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Return the options of a parsed command line. Options without a flag in this command keep their defaults.

        Raises:
            ValueError: If `--env-kwargs` or `--sampling` is malformed.
        """
        given = {one.name: vars(arguments)[one.name] for one in fields(cls) if one.name in vars(arguments)}
        # argparse returns lists, which a frozen value must not share.
        given["agents"] = tuple(given.get("agents", ()))
        if given.get("env_kwargs") is not None:
            given["env_kwargs"] = read_object("--env-kwargs", given["env_kwargs"], '{"num_episodes": 5}')
        if given.get("sampling") is not None:
            given["sampling"] = read_sampling(given["sampling"])
        return cls(**given)


def add_play_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that control how meta-episodes are played."""
    parser.add_argument(
        "--batch",
        type=int,
        default=EvalOptions.batch,
        metavar="N",
        help=f"Concurrent meta-episodes (default: {EvalOptions.batch})",
    )
    parser.add_argument(
        "--env-workers",
        type=int,
        default=EvalOptions.env_workers,
        metavar="N",
        help=f"Environment worker processes (default: {EvalOptions.env_workers}, none)",
    )
    parser.add_argument(
        "--env-memory-gb",
        type=float,
        default=EvalOptions.env_memory_gb,
        metavar="G",
        help="Address space per worker in GiB (default: any)",
    )
    parser.add_argument(
        "--env-timeout",
        type=float,
        default=EvalOptions.env_timeout,
        metavar="S",
        help="Timeout in seconds per environment step, opponents included "
        f"(default: {EvalOptions.env_timeout:g}, 0 disables it)",
    )
    add_option(parser, EvalOptions.executor)
    parser.add_argument("--max-calls", type=int, metavar="N", help="Maximum number of model calls (default: no limit)")
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="Maximum prompt and reply tokens (default: no limit)"
    )
    parser.add_argument("--max-minutes", type=float, metavar="M", help="Time limit in minutes (default: no limit)")
    # The field is positive, so that no reader has to undo a double negation.
    parser.add_argument(
        "--no-baselines",
        dest="baselines",
        action="store_false",
        default=EvalOptions.baselines,
        help="Omit the baselines of repeated tasks (as in Sokoban)",
    )
