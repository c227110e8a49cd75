"""`mage-bench chaos`: tries to break an environment with its game and its opponent, and says how to see it again."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.chaos.checks import CHECKS
from benchmarks.chaos.child import TRANSCRIPTS, CheckRequest
from benchmarks.chaos.processes import CheckRow, Found, checked, compared
from benchmarks.executors import Executor, Local, add_option, in_order, make_executor
from mage_envs import imports
from mage_envs.terminal.json_options import read_object

EPISODES, QUICK = 20, 3
DEADLINE = 30.0
ROW = "{:<13}{:>6}{:>9}  {}\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench chaos`."""
    parser.epilog = "Example: mage-bench chaos --env mage/KuhnPoker-Meta-v0 --quick --check order"
    parser.add_argument("--env", metavar="ID", required=True, help="as in my_games:mage/MyGame-Meta-v0")
    parser.add_argument("--opponent", metavar="NAME", help="as in rps/cycle, my_games:Mine; the id's own by default")
    parser.add_argument("--env-kwargs", metavar="JSON", help="options of the id")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} seeds per check in place of {EPISODES}")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument(
        "--check",
        action="append",
        choices=(*CHECKS, TRANSCRIPTS),
        help="only this one, with the traceback of what it finds; may be repeated",
    )
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE, metavar="SECONDS", help="for one reset or step (30)"
    )
    add_option(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints a table of the checks; ends with status 1 where one finds something."""
    if arguments.seed < 0 or not 0 < arguments.deadline < 86400:
        raise ValueError(f"--seed must be 0 or more, --deadline above 0; got {arguments.seed}, {arguments.deadline:g}.")
    env_kwargs = read_object("--env-kwargs", arguments.env_kwargs, '{"num_episodes": 2}')
    if arguments.opponent is not None:
        env_kwargs["opponent"] = arguments.opponent
    request = CheckRequest(
        env_id=arguments.env,
        env_kwargs=env_kwargs,
        modules=list(imports.imported()),
        checks=arguments.check or [*CHECKS, TRANSCRIPTS],
        seed=arguments.seed,
        episodes=QUICK if arguments.quick else EPISODES,
        deadline=arguments.deadline,
    )
    findings = _table(request, make_executor(arguments.executor))
    for found in findings:
        sys.stdout.write(f"\n{found.check}: {found.what}\n  again with: {_again(arguments, found)}\n")
        if arguments.check and found.trace:
            sys.stdout.write(found.trace.rstrip() + "\n")
    if findings:
        raise SystemExit(1)


def _table(request: CheckRequest, executor: Executor) -> list[Found]:
    """Runs the checks and prints a row for each; returns the findings, each cause once."""
    opponent = request.env_kwargs.get("opponent")
    sys.stdout.write(f"{request.env_id} against {opponent}\n" if opponent else f"{request.env_id}\n")
    sys.stdout.write(ROW.format("check", "seeds", "seconds", "result"))
    told: dict[str, Found] = {}
    for row in _rows(request, executor):
        result = "ok"
        if row.found is not None:
            first = told.setdefault(row.found.cause, row.found)
            result = "FAILED" if first is row.found else f"FAILED, as {first.check}"
        sys.stdout.write(ROW.format(row.check, row.seeds, f"{row.seconds:.1f}", result))
        sys.stdout.flush()
    return list(told.values())


def _rows(request: CheckRequest, executor: Executor) -> Iterator[CheckRow]:
    """In one process as far as nothing ends it; another executor does each check by itself."""
    if isinstance(executor, Local):
        yield from checked(replace(request, checks=[name for name in request.checks if name != TRANSCRIPTS]))
        if TRANSCRIPTS in request.checks:
            yield compared(request)
        return
    for rows in in_order(executor, _row, (request,), request.checks):
        yield from rows


def _row(request: CheckRequest, name: str) -> list[CheckRow]:
    return [compared(request)] if name == TRANSCRIPTS else list(checked(replace(request, checks=[name])))


def _again(arguments: argparse.Namespace, found: Found) -> str:
    """The command that shows a finding again."""
    words = ["mage-bench", "chaos", "--env", arguments.env]
    for option, value in (("--opponent", arguments.opponent), ("--env-kwargs", arguments.env_kwargs)):
        words += [] if value is None else [option, value]
    for module in imports.imported():
        words += [imports.OPTION, module]
    words += ["--check", found.check, "--seed", str(found.seed)]
    return shlex.join(words if arguments.deadline == DEADLINE else [*words, "--deadline", f"{arguments.deadline:g}"])
