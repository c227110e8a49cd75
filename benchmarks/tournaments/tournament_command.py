"""`mage-bench tournament`: every policy plays every policy in both seats; see `benchmarks.tournaments`."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from benchmarks.evaluation.run.evaluate import progress_of
from benchmarks.executors import Executor, add_option, make_executor
from benchmarks.executors.naming import all_cores
from benchmarks.tournaments import Pairing, PairingFailure, Settings, Store, play_all, report, score
from mage_envs.cli.json_options import read_object
from mage_envs.files.atomic import output_path
from mage_envs.files.locking import FolderLock
from mage_envs.processes import CALL_TIMEOUT_S
from opponents import split_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-bench tournament` to its parser."""
    parser.epilog = "Example: mage-bench tournament KuhnPoker --policies uniform,kuhn/rock --games 20 --out runs/cup"
    parser.add_argument("game", metavar="GAME", help="name of a two-player game, such as TicTacToe")
    parser.add_argument("--policies", metavar="NAMES", required=True, help="names of policies, separated by commas")
    parser.add_argument(
        "--games", type=int, default=200, metavar="N", help="matches per pairing, an even number (default: 200)"
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=1,
        metavar="K",
        help="hands per match; policies that learn need more than one (default: 1)",
    )
    parser.add_argument(
        "--game-kwargs", metavar="JSON", help="""options of the game as JSON, such as '{"reveal": "always"}'"""
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of all random draws (default: 0)")
    parser.add_argument(
        "--no-exact", action="store_true", help="skip the exact values, which take long for large game trees"
    )
    add_option(parser, all_cores())
    parser.add_argument(
        "--deadline",
        type=float,
        default=CALL_TIMEOUT_S,
        metavar="SECONDS",
        help="timeout in seconds per deal and for making a pairing's policies; a pairing that exceeds it fails "
        f"(default: {CALL_TIMEOUT_S:g}, 0 disables it)",
    )
    parser.add_argument(
        "--out",
        type=output_path,
        metavar="FOLDER",
        help="folder for finished pairings and reports; the same command resumes from it (default: nothing is kept)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Play the tournament and print its tables. Raise RuntimeError afterwards if a pairing failed."""
    names = split_names(arguments.policies)
    executor = make_executor(arguments.executor)
    settings = Settings(
        game=arguments.game,
        policies=names,
        games=arguments.games,
        episodes=arguments.episodes,
        seed=arguments.seed,
        game_kwargs=read_object("--game-kwargs", arguments.game_kwargs),
        exact=not arguments.no_exact,
    )
    # Checked before the folder is locked, so that a misspelt policy leaves no folder behind.
    settings.check()
    with nullcontext() if arguments.out is None else FolderLock(arguments.out):
        outcomes = _play(settings, executor, arguments.deadline, arguments.out)
    results = score(settings, outcomes)
    written = [] if arguments.out is None else report.save(arguments.out, results)
    sys.stdout.write(report.text(results))
    # Otherwise the lines on stderr could appear above the tables.
    sys.stdout.flush()
    sys.stderr.write("".join(f"wrote {path}\n" for path in written))
    if results.failures:
        raise RuntimeError(
            f"{len(results.failures)} of {len(outcomes)} pairings failed, as listed above; the others count."
        )


def _play(
    settings: Settings, executor: Executor, deadline: float, out: Path | None
) -> dict[tuple[str, str], Pairing | PairingFailure]:
    """Play the pairings that are not in the folder yet.

    Args:
        settings: Settings of the tournament.
        executor: Executor of the pairings.
        deadline: Timeout in seconds per deal (0: none).
        out: Folder for finished pairings, or None to keep nothing.
    """
    store = None if out is None else Store(out, settings)
    progress = progress_of(settings.game, "pairings")
    try:
        return play_all(settings, executor=executor, deadline=deadline, store=store, on_finished=progress)
    except KeyboardInterrupt:
        kept = "; run the same command to resume" if store else ", and lost because --out was not set"
        sys.stderr.write(f"\nInterrupted: {progress.done} of {progress.total} pairings are played{kept}.\n")
        raise SystemExit(130) from None
