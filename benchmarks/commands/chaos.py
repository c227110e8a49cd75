"""`mage chaos`: stress-tests an environment, its game and its opponent, and prints how to reproduce a failure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

import typer

from mage_envs.benchmarks.chaos.checks import CHECKS
from mage_envs.benchmarks.chaos.child import TRANSCRIPTS, CheckRequest
from mage_envs.benchmarks.chaos.processes import CheckRow, Found, checked, compared
from mage_envs.benchmarks.executors import Executor, ExecutorOption, Local, in_order, make_executor
from mage_envs.cli.commands import JsonOption, choice_of, print_json
from mage_envs.cli.json_options import read_object
from mage_envs.cli.tables import TextTable, print_report
from mage_envs.loading import imports
from mage_envs.progress import Progress

EPISODES, QUICK = 20, 3
DEADLINE = 30.0


CHOICES = (*CHECKS, TRANSCRIPTS)
"""Names for `--check`."""


def command(
    env: Annotated[
        str, typer.Option(metavar="ID", help="Environment id, such as my_games:mage/MyGame-Meta-v0 (required)")
    ],
    opponent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the opponent, such as rps/cycle or my_games:Mine (default: the one of the environment id)",
        ),
    ] = None,
    env_kwargs: Annotated[
        Mapping[str, Any] | None,
        typer.Option(
            parser=partial(read_object, "--env-kwargs", example='{"num_episodes": 2}'),
            metavar="JSON",
            help="Options of the environment as a JSON object",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option(help=f"Run {QUICK} seeds per check instead of {EPISODES}")] = False,
    seed: Annotated[int, typer.Option(metavar="S", help="First seed of each check (default: 0)")] = 0,
    check: Annotated[
        list[str] | None,
        typer.Option(
            parser=choice_of(CHOICES),
            metavar="NAME",
            help="Run only this check, and print the traceback if it fails; may be repeated",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help=f"Timeout in seconds per reset or step (default: {DEADLINE:g})")
    ] = DEADLINE,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Stress-test your environment, game or opponent: garbage, copies, processes, hangs, NaN, memory.

    The exit status is 1 if a check finds a failure.

    Example: mage chaos --env mage/KuhnPoker-Meta-v0 --quick --check order
    """
    if seed < 0 or not 0 < deadline < 86400:
        raise ValueError(
            "--seed must be 0 or more, and --deadline must be above 0 and below 86400 seconds; "
            f"got --seed {seed} --deadline {deadline:g}."
        )
    options = dict(env_kwargs or {})
    if opponent is not None:
        options["opponent"] = opponent
    request = CheckRequest(
        env_id=env,
        env_kwargs=options,
        modules=list(imports.imported()),
        checks=check or list(CHOICES),
        seed=seed,
        episodes=QUICK if quick else EPISODES,
        deadline=deadline,
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
        commands = {found.check: _again(env, opponent, env_kwargs, found, deadline) for found in findings}
        if as_json:
            print_json(
                [
                    row._asdict() | {"found": row.found and asdict(row.found), "again": commands.get(row.check)}
                    for row in rows
                ]
            )
        else:
            played = options.get("opponent")
            print_report([f"{env} against {played}" if played else env, table])
            for found in findings:
                # Not part of the report, which would wrap a long command.
                sys.stdout.write(f"\n{found.check}: {found.what}\n  again with: {commands[found.check]}\n")
                if check and found.trace:
                    sys.stdout.write(found.trace.rstrip() + "\n")
    if findings:
        raise SystemExit(1)


def _table(rows: Sequence[CheckRow]) -> tuple[TextTable, list[Found]]:
    """Return the table of the finished checks, and the findings without repeated causes."""
    # By cause: one defect usually fails several checks, and its row then names the first of them.
    told: dict[str, Found] = {}
    cells = []
    for row in rows:
        result = "ok"
        if row.found is not None:
            first = told.setdefault(row.found.cause, row.found)
            result = "FAILED" if first is row.found else f"FAILED, as {first.check}"
        cells.append([row.check, str(row.seeds), f"{row.seconds:.1f}", result])
    return TextTable(["check", "seeds", "seconds", "result"], cells, text=(0, 3)), list(told.values())


def _rows(request: CheckRequest, executor: Executor) -> Iterator[CheckRow]:
    """Yield the row of each check; an executor other than `local` runs each check as a separate job."""
    if isinstance(executor, Local):
        # One child for all checks imports and makes the environment once; it is replaced only if it dies.
        yield from checked(replace(request, checks=[name for name in request.checks if name != TRANSCRIPTS]))
        if TRANSCRIPTS in request.checks:
            yield compared(request)
        return
    for rows in in_order(executor, _row, (request,), request.checks):
        yield from rows


def _row(request: CheckRequest, name: str) -> list[CheckRow]:
    return [compared(request)] if name == TRANSCRIPTS else list(checked(replace(request, checks=[name])))


def _again(
    env_id: str, opponent: str | None, env_kwargs: Mapping[str, Any] | None, found: Found, deadline: float
) -> str:
    """Return the command line that reproduces a finding.

    Args:
        env_id: Value of `--env`.
        opponent: Value of `--opponent`.
        env_kwargs: Value of `--env-kwargs`.
        found: Finding to reproduce.
        deadline: Value of `--deadline` in seconds.
    """
    words = ["mage", "chaos", "--env", env_id]
    kwargs = json.dumps(env_kwargs) if env_kwargs else None
    for option, value in (("--opponent", opponent), ("--env-kwargs", kwargs)):
        words += [] if value is None else [option, value]
    for module in imports.imported():
        words += [imports.OPTION, module]
    words += ["--check", found.check, "--seed", str(found.seed)]
    return shlex.join(words if deadline == DEADLINE else [*words, "--deadline", f"{deadline:g}"])
