"""`mage tournament`: every policy plays every policy in both seats; see `mage_envs.benchmarks.tournaments`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from mage_envs.benchmarks.evaluation.run.evaluate import progress_of
from mage_envs.benchmarks.executors.jobs import Executor
from mage_envs.benchmarks.executors.naming import ExecutorOption, make_executor
from mage_envs.benchmarks.tournaments import report
from mage_envs.benchmarks.tournaments.pairing import Pairing, PairingFailure
from mage_envs.benchmarks.tournaments.pairing_store import Store
from mage_envs.benchmarks.tournaments.results import score
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.cli.commands import GameOptions, JsonOption, output_option, print_result
from mage_envs.files.locking import FolderLock
from mage_envs.opponents.registry import split_names, without_servers
from mage_envs.processes.watchdog import CALL_TIMEOUT_S


def command(
    game: Annotated[str, typer.Argument(metavar="GAME", help="Name of a two-player game, such as TicTacToe")],
    opponents: Annotated[str, typer.Option(metavar="NAMES", help="Names of policies, separated by commas")],
    games: Annotated[int, typer.Option(metavar="N", help="Matches per pairing, an even number (default: 200)")] = 200,
    episodes: Annotated[
        int, typer.Option(metavar="K", help="Hands per match; policies that learn need more than one (default: 1)")
    ] = 1,
    game_options: GameOptions = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of all random draws (default: 0)")] = 0,
    no_exact: Annotated[bool, typer.Option(help="Skip the exact values, which take long for large game trees")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Timeout in seconds per deal and for making a pairing's policies; a pairing that exceeds it fails "
            f"(default: {CALL_TIMEOUT_S:g}, 0 disables it)",
        ),
    ] = CALL_TIMEOUT_S,
    out: Annotated[
        Path | None,
        output_option(
            "FOLDER",
            "Folder for finished pairings and reports; the same command resumes from it (default: nothing is kept)",
        ),
    ] = None,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Play every policy against every policy: payoff matrix, exact values, ranking, heat map.

    A pairing that fails is reported after the tables, and the exit status is then 2.

    Example: mage tournament KuhnPoker --opponents uniform,kuhn/rock --games 20 --out runs/cup
    """
    names = without_servers(split_names(opponents))
    job_executor = make_executor(executor)
    settings = Settings(
        game=game,
        policies=names,
        games=games,
        episodes=episodes,
        seed=seed,
        game_kwargs=game_options or {},
        exact=not no_exact,
    )
    # Checked before the folder is locked, so that a misspelt policy leaves no folder behind.
    settings.check()
    with nullcontext() if out is None else FolderLock(out):
        outcomes = _play(settings, job_executor, timeout, out)
    results = score(settings, outcomes)
    written = [] if out is None else report.save(out, results)
    print_result(results.to_json(), report.blocks(results), as_json)
    # Otherwise the lines on stderr could appear above the tables.
    sys.stdout.flush()
    sys.stderr.write("".join(f"wrote {path}\n" for path in written))
    if results.failures:
        raise RuntimeError(
            f"{len(results.failures)} of {len(outcomes)} pairings failed, as listed above; the others count."
        )


def _play(
    settings: Settings, executor: Executor, timeout: float, out: Path | None
) -> dict[tuple[str, str], Pairing | PairingFailure]:
    """Play the pairings that are not in the folder yet.

    Args:
        timeout: Timeout in seconds per deal (0: none).
        out: Folder for finished pairings, or None to keep nothing.
    """
    store = None if out is None else Store(out, settings)
    progress = progress_of(settings.game, "pairings")
    try:
        return play_all(settings, executor=executor, deadline=timeout, store=store, on_finished=progress)
    except KeyboardInterrupt:
        hint = "; run the same command to resume" if store else ", and lost because --out was not set"
        sys.stderr.write(f"\nInterrupted: {progress.done} of {progress.total} pairings are played{hint}.\n")
        raise SystemExit(130) from None
