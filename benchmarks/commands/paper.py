"""`mage paper`: the stages of one of the paper's tables, their costs, and the table of their results.

F/train/PRESET/                    a training
F/evaluate/PANEL-k10-paper/ROW/    an evaluation, as `mage eval --suite` stores it
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.benchmarks.paper.ablation import ROLLOUTS, ablation_runs, trial_fields
from mage_envs.benchmarks.paper.costs import MEAN_REPLY, Bound, StageCost, cost_of
from mage_envs.benchmarks.paper.results import EVALUATIONS, cells_of, text_blocks
from mage_envs.benchmarks.paper.stages import MODEL, NAMES, PROMPTED, TRIAL, Stage, check_name, stages_of, suite_of
from mage_envs.benchmarks.records.record_store import RUN
from mage_envs.benchmarks.runs.suite_folder import play_runs
from mage_envs.benchmarks.sweeps.plan import flags
from mage_envs.benchmarks.sweeps.sweep import sweep
from mage_envs.cli.commands import JsonOption, output_option, print_json, print_result
from mage_envs.cli.tables import Block, TextTable, print_report
from mage_envs.trainer.cli import train as training
from mage_envs.trainer.cli.estimate import format_bytes
from mage_envs.trainer.config.hardware import Hardware, hardware, hardware_names
from mage_envs.trainer.config.presets import ABLATIONS, COMMON, PRESETS

SAMPLE, QUICK_SAMPLE = 16, 1
"""Meta-episodes of random play per setting in a dry run, and in a trial of one."""
SERVED = "Qwen/Qwen3-4B"
PORT = 8000


def command(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help=f"Table of the paper: {', '.join(NAMES)}. Or an ablation, which is trained and evaluated over seeds: "
            + "; ".join(f"{name}: {ablation.about}" for name, ablation in ABLATIONS.items()),
        ),
    ],
    options: PlayOptions,
    out: Annotated[Path | None, output_option("FOLDER", "Folder of all stages; required to run one")] = None,
    stage: Annotated[int | None, typer.Option(metavar="N", help="Run this stage of the dry run's list")] = None,
    dry_run: Annotated[bool, typer.Option(help="Print all stages with their costs, and call no model")] = False,
    quick: Annotated[
        bool,
        typer.Option(help="Trial: tiny trainings on this CPU, scripted replies, few tasks; its scores are not results"),
    ] = False,
    hardware_name: Annotated[
        str,
        typer.Option("--hardware", metavar="NAME", help=f"Machine: {', '.join(hardware_names())} (default: 8x80gb)"),
    ] = "8x80gb",
    agent: Annotated[
        str, typer.Option(metavar="AGENT", help=f"Agent of the prompted methods (default: {MODEL})")
    ] = MODEL,
    mean_reply: Annotated[
        int,
        typer.Option(metavar="N", min=1, help=f"Mean tokens of a reply, for the typical costs (default: {MEAN_REPLY})"),
    ] = MEAN_REPLY,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="Model of an ablation: words (a small model that learns), tiny (a smoke test that learns nothing), or "
            "a model's folder (default: words)",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Seeds of an ablation, one training each (default: 3)")
    ] = None,
    rollouts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Rollouts of an ablation (default: {ROLLOUTS['words']} for words, {ROLLOUTS['tiny']} for tiny)",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the trainings and evaluations of one of the paper's tables or ablations.

    A table has stages: without --dry-run and --stage the command prints those that are done. An ablation is run as a
    whole, in this machine's processes or with --executor; the same command resumes it.

    Example: mage paper ablation-4.4.3 --dry-run --quick
    """
    if table in ABLATIONS:
        if dry_run or quick or stage is not None:
            raise ValueError(f"--dry-run, --quick and --stage apply to a table, and {table} is an ablation.")
        if out is None:
            raise ValueError("Name the folder of the trainings with --out.")
        runs = ablation_runs(table, model or "words", 3 if seeds is None else seeds, rollouts)
        sweep(f"ablation {table}", runs, out, options.executor, as_json)
        return
    if (model, seeds, rollouts) != (None, None, None):
        raise ValueError(f"--model, --seeds and --rollouts apply to an ablation: {', '.join(ABLATIONS)}.")
    check_name(table)
    stages = stages_of(table)
    if dry_run:
        _print_plan(table, stages, options, out, hardware(hardware_name), mean_reply, quick, as_json)
        return
    if stage is not None:
        if not 1 <= stage <= len(stages):
            raise ValueError(
                f"--stage {stage} is none of the stages 1 to {len(stages)} of {table}; --dry-run lists them."
            )
        if out is None:
            raise ValueError("Name the folder of the stages with --out, or list them with --dry-run.")
        run_stage(table, stages[stage - 1], out, options, None if quick else hardware_name, TRIAL if quick else agent)
        return
    print_result([asdict(cell) for cell in cells_of(table, out)], text_blocks(table, out), as_json)


def run_stage(table: str, stage: Stage, out: Path, options: PlayOptions, machine: str | None, agent: str) -> None:
    """Run one stage, or continue it.

    Args:
        machine: Name of the hardware, or None for a trial on this CPU.
        agent: Agent of the prompted methods.

    Raises:
        RuntimeError: If a training failed.
        ValueError: If the panel's data are absent.
        FileNotFoundError: If the model of an evaluation was not trained yet.
    """
    if not stage.panel:
        words = training_words(stage, out, machine)
        if status := training.main(words) if machine is None else subprocess.run(words, check=False).returncode:
            raise RuntimeError(f"Training {stage.preset} ended with status {status}: {shlex.join(words)}")
        return
    run = stage.run(suite_of(table), out, agent, quick=machine is None)
    if run is None:
        absent = "needs the original data, which are absent; mage list panels names the folder."
        raise ValueError(f"{stage.panel}: {stage.obstacle()}" if stage.obstacle() else f"{stage.panel} {absent}")
    # The same stage resumes.
    resumed = (out / EVALUATIONS / run.folder / RUN).exists()
    _, statuses = play_runs([run], out / EVALUATIONS, replace(options, resume=resumed))
    if statuses[0]:
        raise SystemExit(statuses[0])


def training_words(stage: Stage, out: Path, machine: str | None) -> list[str]:
    """Return the command of a training on a machine, or the arguments of a trial in this process."""
    arguments = ["--preset", stage.preset, "--output_dir", str(stage.folder(out)), "--resume-if-any"]
    if machine is None:
        return [*arguments, *flags(trial_fields())]
    launch = hardware(machine).launch()
    if "command" not in launch:
        raise ValueError(f"--hardware {machine} has several nodes, so only Slurm starts it; see --dry-run.")
    return [*shlex.split(launch["command"]), *arguments]


# -- the plan --------------------------------------------------------------------------------------------------


def _print_plan(
    table: str,
    stages: Sequence[Stage],
    options: PlayOptions,
    out: Path | None,
    machine: Hardware,
    mean_reply: int,
    quick: bool,
    as_json: bool,
) -> None:
    """Print the stages with their costs, the Slurm chain and the command of the server."""
    suite, sample = suite_of(table), QUICK_SAMPLE if quick else SAMPLE
    costs: dict[int, StageCost] = {}
    # A missing engine costs the rows of its game, not the plan.
    missing = {stage.number: stage.obstacle() for stage in stages}
    for stage in stages:
        sys.stderr.write(f"[{stage.number}/{len(stages)}] {stage.name}{': n/a' if missing[stage.number] else ''}\n")
        if not missing[stage.number]:
            costs[stage.number] = cost_of(stage, suite, machine, mean_reply, sample)
    if as_json:
        print_json([_row_json(stage, costs.get(stage.number), missing[stage.number]) for stage in stages])
        return
    head = ["stage", "name", "after", "hours", "at most", "GPU hours", "at most", "disk", "calls", "tokens", "price"]
    rows = [
        [str(stage.number), stage.name, ",".join(map(str, stage.after)), *_texts(costs.get(stage.number), options)]
        for stage in stages
    ]
    trained = [stage for stage in stages if not stage.panel]
    note = (
        f"Typical values: calls and prompts of random play (meta-episodes per setting: {sample}), replies of "
        f"{mean_reply} tokens. At most: every call, prompts and replies at their limits. The rates of the hardware are "
        "assumptions."
    )
    blocks: list[Block] = [
        f"{table}: {len(trained)} trainings and {len(stages) - len(trained)} evaluations on {machine.name}",
        note,
        "",
        TextTable(head, rows, text=(1, 2)),
        f"Sum: {_sum_text(list(costs.values()), options)}",
        *(f"n/a, and not in the sum: {reason}" for reason in dict.fromkeys(filter(None, missing.values()))),
    ]
    print_report(blocks)
    # Not part of the report, which would wrap long commands.
    folder = out or Path("runs") / table
    print(f"\nServer of the prompted methods:\n{serve_line()}\n\nSlurm chain:")
    print("\n".join(slurm_chain(table, stages, folder, machine)))


def _row_json(stage: Stage, cost: StageCost | None, reason: str) -> dict[str, Any]:
    row = {"stage": stage.number, "name": stage.name, "after": list(stage.after)}
    if cost is None:
        return {**row, "reason": reason}
    bounds = {name: value._asdict() if isinstance(value, Bound) else value for name, value in vars(cost).items()}
    return {**row, **bounds}


def _texts(cost: StageCost | None, options: PlayOptions) -> list[str]:
    if cost is None:
        return [NOT_KNOWN] * 8
    price = "" if options.price is None else f"{cost.price(options.price).typical:,.2f}"
    hours = [f"{value:.1f}" for value in cost.hours]
    gpu_hours = [f"{value * cost.devices:,.0f}" for value in cost.hours]
    tokens = cost.prompt_tokens.typical + cost.reply_tokens.typical
    disk = format_bytes(cost.disk) if cost.disk else ""
    return [*hours, *gpu_hours, disk, f"{cost.calls.typical:,.0f}", f"{tokens / 1e6:,.0f} M", price]


def _sum_text(costs: Sequence[StageCost], options: PlayOptions) -> str:
    typical, upper_bound = (sum(cost.hours[bound] * cost.devices for cost in costs) for bound in (0, 1))
    calls = sum(cost.calls.typical for cost in costs)
    tokens = sum(cost.prompt_tokens.typical + cost.reply_tokens.typical for cost in costs)
    text = (
        f"{typical:,.0f} GPU hours, at most {upper_bound:,.0f}; disk {format_bytes(sum(cost.disk for cost in costs))}; "
    )
    text += f"{calls:,.0f} calls, {tokens / 1e6:,.0f} M tokens"
    if options.price is not None:
        text += f", price {sum(cost.price(options.price).typical for cost in costs):,.2f}"
    return text


def serve_line(port: int = PORT) -> str:
    """Return the command that serves the paper's model with room for the longest prompt and reply of a preset."""
    longest = max(
        fields.get("max_prompt_length", COMMON["max_prompt_length"]) + fields["max_completion_length"]
        for name, fields in PRESETS.items()
        if name.endswith("-paper")
    )
    return f"vllm serve {SERVED} --port {port} --max-model-len {longest}"


def slurm_chain(table: str, stages: Sequence[Stage], out: Path, machine: Hardware) -> list[str]:
    """Return a shell script that submits all stages, each after those that it needs."""
    lines = ["#!/bin/bash", "set -euo pipefail"]
    submit = machine.launch()["slurm"].replace("sbatch ", "sbatch --parsable ", 1)
    for stage in stages:
        name = f"s{stage.number}"
        if not stage.panel:
            words = shlex.join(["--preset", stage.preset, "--output_dir", str(stage.folder(out))])
            lines.append(f"{name}=$({submit} {words})")
            continue
        dependencies = "".join(f":${{s{number}}}" for number in stage.after)
        needs = f" --dependency=afterok{dependencies}" if dependencies else ""
        run = f"mage paper {table} --stage {stage.number} --out {shlex.quote(str(out))}"
        if stage.method in PROMPTED:
            # Two jobs of one node need two ports. A server needs minutes to load the model.
            port = PORT + stage.number
            waits = f"until curl -sf http://localhost:{port}/v1/models; do sleep 5; done"
            run = f"{serve_line(port)} & {waits}; {run} --agent {MODEL.replace(str(PORT), str(port))}"
        lines.append(
            f"{name}=$(sbatch --parsable{needs} --gpus-per-node=1 --cpus-per-task=8 --wrap {shlex.quote(run)})"
        )
    return lines
