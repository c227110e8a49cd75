"""`EvalOptions`: the options of an evaluation, with their types and defaults, and the flags that set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from mage_envs.benchmarks.evaluation.run.budget import FORM as FORM_OF_BUDGET
from mage_envs.benchmarks.evaluation.run.budget import read_budget
from mage_envs.benchmarks.evaluation.run.preflight import MAX_CUT, Price, read_price
from mage_envs.benchmarks.evaluation.suites.sampling import FORM, read_sampling
from mage_envs.benchmarks.executors.naming import ExecutorOption
from mage_envs.cli.commands import GameOptions, output_option
from mage_envs.processes.watchdog import CALL_TIMEOUT_S

ROWS = 64
"""Default number of meta-episodes per opponent and first seat, unless a named panel fixes it."""
ControlName = Literal["none", "frozen", "shuffled", "other", "same", "given"]
"""Names of the controls: `none`, and those of `mage_envs.wrappers.controls`."""
FormatOption = Annotated[
    Literal["text", "tsv"], typer.Option("--format", help="Aligned columns, or tabs between the fields (default: text)")
]
"""Type of the parameter `table_format: FormatOption = "text"`."""


EnvOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Id that ends with -Meta-v0 (default: a saved model's own)")
]
PanelOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Named panel; mage list panels shows all of them")
]
SamplingOption = Annotated[
    Mapping[str, float] | None,
    typer.Option(metavar="S", parser=read_sampling, help=f"Sampling of a model's replies: {FORM}"),
]
DryRunOption = Annotated[bool, typer.Option(help="Print the expected calls, tokens and price, and call no model")]


@dataclass(frozen=True, kw_only=True)
class PanelOptions:
    """Options that select the agents and what they play.

    None means that the user did not choose: the agent, the panel or the environment then decides.
    """

    agents: tuple[str, ...] = ()
    """Agents as `mage eval` names them, each with an optional memory after a plus sign."""
    env: EnvOption = None
    game_options: GameOptions = None
    """Options of the environment, which override a saved model's own."""
    episodes: Annotated[
        int | None, typer.Option(metavar="K", help="Episodes of a meta-episode (default: the environment's)")
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Memory, as mage list memories shows them (default: the environment's)"),
    ] = None
    opponents: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="pool:NAME, or names such as ultimatum/soft-reserve:3,.2,uniform"),
    ] = None
    """If it is None, the panel's or the game's default opponents play."""
    panel: PanelOption = None
    """Name of a panel. It fixes the environment, the opponents, the rows and the seed."""
    rows: Annotated[
        int | None, typer.Option(metavar="N", help=f"Meta-episodes per opponent and first seat (default: {ROWS})")
    ] = None
    """If it is None, the panel decides, else `ROWS`."""
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of the panel (default: 0)")] = None
    control: Annotated[
        ControlName | None, typer.Option(help="Control: remove or exchange the memory (default: no control)")
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Without an agent, the run to score; with --control other or same, the run to take memories from",
        ),
    ] = None
    elicit: Annotated[
        bool,
        typer.Option("--elicit", help="Between episodes, ask how likely each opponent of the panel is: one extra call"),
    ] = False
    elicit_name: Annotated[
        bool, typer.Option("--elicit-name", help="Like --elicit, but ask for the name of one opponent")
    ] = False
    sampling: SamplingOption = None
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the agent in records and tables (default: AGENT without its @URL)"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Options that control how meta-episodes are played."""

    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Concurrent meta-episodes (default: 256)")] = 256
    env_workers: Annotated[
        int, typer.Option(metavar="N", min=0, help="Environment worker processes (default: 0, none)")
    ] = 0
    env_memory_gb: Annotated[
        float, typer.Option(metavar="G", min=0, help="Address space per worker in GiB (default: any)")
    ] = 0.0
    """0 sets no limit."""
    env_timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0,
            help="Timeout in seconds per environment step, opponents included "
            f"(default: {CALL_TIMEOUT_S:g}, 0 disables it)",
        ),
    ] = CALL_TIMEOUT_S
    executor: ExecutorOption = "local"
    budget: Annotated[
        Mapping[str, float] | None,
        typer.Option(
            metavar="LIMITS",
            parser=read_budget,
            help=f"Limits on model calls, prompt and reply tokens, and time: {FORM_OF_BUDGET} (default: none)",
        ),
    ] = None
    price: Annotated[
        Price | None,
        typer.Option(
            metavar="IN,OUT", parser=read_price, help="Price of a million prompt and reply tokens, for the preflight"
        ),
    ] = None
    allow_cut: Annotated[
        bool,
        typer.Option(help=f"Continue even if over {MAX_CUT:.0%} of the replies in the preflight are cut"),
    ] = False
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines", help="Play the baselines of repeated tasks, as in Sokoban (default: yes)"
        ),
    ] = True
    out: Path | None = None
    """Folder of the run, or None to store nothing. Each command has its own flag for it."""
    resume: Annotated[bool, typer.Option(help="Play missing and failed meta-episodes of --out")] = False


# Dataclasses list the fields of the last base first, and the help has the same order.
@dataclass(frozen=True, kw_only=True)
class EvalOptions(PlayOptions, PanelOptions):
    """Options of an evaluation."""

    controls: Annotated[
        bool | None,
        typer.Option(
            "--controls/--no-controls",
            help="Play the same tasks without memory and with another opponent's, which the verdict needs "
            "(default: yes for a policy, no for a model, whose calls they triple at most)",
        ),
    ] = None

    out: Annotated[Path | None, output_option("RUN", "Folder of the run; several agents get one subfolder each")] = None
