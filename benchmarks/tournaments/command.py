"""`mage-bench tournament`: every policy against every policy, in both seats; see `benchmarks.tournaments`."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from benchmarks.evaluation.evaluate import progress_of
from benchmarks.executors import Executor, add_option, make_executor
from benchmarks.executors.naming import all_cores
from benchmarks.tournaments import Pairing, PairingFailure, Settings, Store, play_all, report, score
from mage_envs.durable import output_path
from mage_envs.locking import FolderLock
from mage_envs.processes import DEADLINE
from mage_envs.terminal.json_options import read_object
from opponents import split_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench tournament`."""
    parser.epilog = "Example: mage-bench tournament KuhnPoker --policies uniform,kuhn/rock --games 20 --out runs/cup"
    parser.add_argument("game", metavar="GAME", help="a two-player game, as in TicTacToe")
    parser.add_argument("--policies", metavar="NAMES", required=True, help="names, separated by commas")
    parser.add_argument("--games", type=int, default=200, metavar="N", help="matches per pairing, even (200)")
    parser.add_argument(
        "--episodes", type=int, default=1, metavar="K", help="hands per match, for policies that learn in it (1)"
    )
    parser.add_argument("--game-kwargs", metavar="JSON", help="""options of the game, as in '{"reveal": "always"}'""")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of all draws (0)")
    parser.add_argument("--no-exact", action="store_true", help="leave the exact values out, for large trees")
    add_option(parser, all_cores())
    parser.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE,
        metavar="SECONDS",
        help=f"for one deal, or to make a pairing's policies; what is later fails; 0: none ({DEADLINE:g})",
    )
    parser.add_argument(
        "--out",
        type=output_path,
        metavar="FOLDER",
        help="keep each pairing there, go on from it, and write the reports",
    )


def run(arguments: argparse.Namespace) -> None:
    """Plays, and writes the tables to stdout; raises RuntimeError after that where a pairing failed."""
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
    settings.check()
    with nullcontext() if arguments.out is None else FolderLock(arguments.out):
        outcomes = _play(arguments, settings, executor)
    results = score(settings, outcomes)
    written = [] if arguments.out is None else report.save(arguments.out, results)
    sys.stdout.write(report.text(results))
    sys.stdout.flush()
    sys.stderr.write("".join(f"wrote {path}\n" for path in written))
    if results.failures:
        raise RuntimeError(f"{len(results.failures)} of {len(outcomes)} pairings failed, as told; the others count.")


def _play(
    arguments: argparse.Namespace, settings: Settings, executor: Executor
) -> dict[tuple[str, str], Pairing | PairingFailure]:
    """Play what the folder does not hold yet."""
    store = None if arguments.out is None else Store(arguments.out, settings)
    progress = progress_of(settings.game, "pairings")
    try:
        return play_all(settings, executor=executor, deadline=arguments.deadline, store=store, on_finished=progress)
    except KeyboardInterrupt:
        kept = "; the same command goes on from there" if store else ", and lost without --out"
        sys.stderr.write(f"\nInterrupted: {progress.done} of {progress.total} pairings are played{kept}.\n")
        raise SystemExit(130) from None
