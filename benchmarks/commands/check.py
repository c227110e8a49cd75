"""`mage check`: stress-tests an environment, its game and its opponent, and prints how to reproduce a failure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from mage_envs.benchmarks.chaos.checks import CHECKS
from mage_envs.benchmarks.chaos.child import TRANSCRIPTS, CheckRequest
from mage_envs.benchmarks.chaos.processes import CheckRow, Found, compare_processes, run_checks
from mage_envs.benchmarks.executors.jobs import Executor, run_in_order
from mage_envs.benchmarks.executors.naming import ExecutorOption, make_executor
from mage_envs.benchmarks.executors.on_this_machine import Local
from mage_envs.cli.commands import GameOptions, JsonOption, choice_of, print_json
from mage_envs.cli.game_options import as_flags
from mage_envs.cli.tables import TextTable, print_report
from mage_envs.loading import imports
from mage_envs.progress import Progress

EPISODES, QUICK = 20, 3
TIMEOUT_S = 30.0


CHOICES = (*CHECKS, TRANSCRIPTS)
"""Names for `--check`."""


def command(
    env: Annotated[str, typer.Argument(metavar="ID", help="Environment id, such as my_games:mage/MyGame-Meta-v0")],
    opponents: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Opponent or pool, such as rps/cycle or my_games:Mine (default: the one of the environment id)",
        ),
    ] = None,
    game_options: GameOptions = None,
    quick: Annotated[bool, typer.Option(help=f"Run {QUICK} seeds per check instead of {EPISODES}")] = False,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="First seed of each check (default: 0)")] = 0,
    check: Annotated[
        list[str] | None,
        typer.Option(
            parser=choice_of(CHOICES),
            metavar="NAME",
            help="Run only this check, and print the traceback if it fails; may be repeated",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help=f"Timeout in seconds per reset or step (default: {TIMEOUT_S:g})")
    ] = TIMEOUT_S,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Check your environment, game or opponent: garbage, copies, processes, hangs, NaN, memory.

    The exit status is 1 if a check finds a failure.

    Example: mage check mage/KuhnPoker-Meta-v0 --quick --check order
    """
    if not 0 < timeout < 86400:
        raise ValueError(f"--timeout must be above 0 and below 86400 seconds, got {timeout:g}.")
    options = dict(game_options or {})
    if opponents is not None:
        options["opponent"] = opponents
    request = CheckRequest(
        env_id=env,
        env_kwargs=options,
        modules=list(imports.user_modules()),
        checks=check or list(CHOICES),
        seed=seed,
        episodes=QUICK if quick else EPISODES,
        deadline=timeout,
    )
    rows: list[CheckRow] = []
    progress = Progress(f"Checking {env}", len(request.checks), "checks")
    try:
        for row in _rows(request, make_executor(executor)):
            rows.append(row)
            progress(len(rows))
    finally:
        # Also after Ctrl-C, so that the finished checks are not lost.
        table, findings = _table(rows)
        commands = {finding.check: _again(env, opponents, game_options, finding, timeout) for finding in findings}
        if as_json:
            print_json(
                [
                    row._asdict() | {"found": row.found and asdict(row.found), "again": commands.get(row.check)}
                    for row in rows
                ]
            )
        else:
            opponent = options.get("opponent")
            print_report([f"{env} against {opponent}" if opponent else env, table])
            for finding in findings:
                # Not part of the report, which would wrap a long command.
                sys.stdout.write(f"\n{finding.check}: {finding.what}\n  again with: {commands[finding.check]}\n")
                if check and finding.trace:
                    sys.stdout.write(finding.trace.rstrip() + "\n")
    if findings:
        raise SystemExit(1)


def _table(rows: Sequence[CheckRow]) -> tuple[TextTable, list[Found]]:
    """Return the table of the finished checks, and the findings without repeated causes."""
    # By cause: one defect usually fails several checks, and its row then names the first of them.
    first_findings: dict[str, Found] = {}
    cells = []
    for row in rows:
        result = "ok"
        if row.found is not None:
            finding = first_findings.setdefault(row.found.cause, row.found)
            result = "FAILED" if finding is row.found else f"FAILED, as {finding.check}"
        cells.append([row.check, str(row.seeds), f"{row.seconds:.1f}", result])
    return TextTable(["check", "seeds", "seconds", "result"], cells, text=(0, 3)), list(first_findings.values())


def _rows(request: CheckRequest, executor: Executor) -> Iterator[CheckRow]:
    """Yield the row of each check; an executor other than `local` runs each check as a separate job."""
    if isinstance(executor, Local):
        # One child for all checks imports and makes the environment once; it is replaced only if it dies.
        yield from run_checks(replace(request, checks=[name for name in request.checks if name != TRANSCRIPTS]))
        if TRANSCRIPTS in request.checks:
            yield compare_processes(request)
        return
    for rows in run_in_order(executor, _row, (request,), request.checks):
        yield from rows


def _row(request: CheckRequest, name: str) -> list[CheckRow]:
    return [compare_processes(request)] if name == TRANSCRIPTS else list(run_checks(replace(request, checks=[name])))


def _again(
    env_id: str, opponents: str | None, game_options: Mapping[str, Any] | None, finding: Found, timeout: float
) -> str:
    """Return the command line that reproduces a finding.

    Args:
        opponents: Value of `--opponents`.
        game_options: Values of `--game-option`.
        timeout: Value of `--timeout` in seconds.
    """
    words = ["mage", "check", env_id, *as_flags(game_options or {})]
    if opponents is not None:
        words += ["--opponents", opponents]
    for module in imports.user_modules():
        words += [imports.OPTION, module]
    words += ["--check", finding.check, "--seed", str(finding.seed)]
    return shlex.join(words if timeout == TIMEOUT_S else [*words, "--timeout", f"{timeout:g}"])
