"""`python -m dev.speed.processes`: wall-clock speed-up of an evaluation in several processes.

Both sides play and record the panel with `policy:mcts:1000`. The start of the processes is part of their time. The
machine should have as many idle cores as processes, because the ratio on a busy machine is meaningless.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.executors.on_this_machine import Processes
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.benchmarks.runs.distributed import play_spread
from mage_envs.processes.watchdog import CALL_TIMEOUT_S

AGENT, PANEL = "policy:mcts:1000", "tictactoe-paper-unseen"
TARGET = 1.7
"""Target of the speed-up with two processes on two idle cores."""
BATCH = 256


def seconds(setting: Setting, about: Mapping[str, Any], count: int, folder: Path) -> float:
    """Return the seconds until the panel is played and recorded.

    Args:
        setting: Panel and options of the environment.
        count: Number of worker processes, or 0 to play in this process.

    Raises:
        RuntimeError: If a worker was lost.
    """
    start_time = time.perf_counter()
    writer = Writer(folder, about, resume=False)
    if not count:
        evaluate(make_agent(AGENT), setting.tasks, setting.options, batch=BATCH, on_finished=writer.add)
    else:
        todo = range(len(setting.tasks))
        lost = play_spread(Processes(count), AGENT, about, todo, writer.add, batch=BATCH, env_timeout=CALL_TIMEOUT_S)
        if lost:
            raise RuntimeError(f"Workers were lost: {'; '.join(lost)}.")
    writer.close()
    return time.perf_counter() - start_time


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one line. Return 1 if the records differ."""
    parser = argparse.ArgumentParser(
        prog="python -m dev.speed.processes", description=(__doc__ or "").partition(":")[2]
    )
    parser.add_argument("--panel", default=PANEL, metavar="NAME", help=f"panel to play (default: {PANEL})")
    parser.add_argument(
        "--episodes",
        type=_positive,
        default=3,
        metavar="K",
        help="number of episodes of a meta-episode (default: 3)",
    )
    parser.add_argument(
        "--processes", type=_positive, default=2, metavar="N", help="number of worker processes (default: 2)"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=3, metavar="N", help="number of rounds, whose medians count (default: 3)"
    )
    options = parser.parse_args(arguments)
    setting = Setting(named_panel(options.panel), options.panel, {"num_episodes": options.num_episodes})
    about = about_run(make_agent(AGENT), setting)
    times: dict[int, list[float]] = {0: [], options.processes: []}
    roots = set()
    # Both sides take turns, so that a change of the machine's load affects both.
    for _ in range(options.rounds):
        for count, durations in times.items():
            with tempfile.TemporaryDirectory() as folder:
                durations.append(seconds(setting, about, count, Path(folder) / "run"))
                # The digest of all records. It must not depend on the number of processes.
                roots.add(Records(Path(folder) / "run").root()["root"])
    single, spread = (statistics.median(durations) for durations in times.values())
    load = os.getloadavg()[0]
    sys.stdout.write(f"{options.panel}, K = {options.num_episodes}, {AGENT}: ")
    sys.stdout.write(f"{single:.1f} s in one process, {spread:.1f} s in {options.processes}: ")
    sys.stdout.write(
        f"{single / spread:.2f} times as fast (at least {TARGET:g} with 2 on 2 idle cores; load {load:.1f})"
    )
    sys.stdout.write(", the same records\n" if len(roots) == 1 else ", OTHER RECORDS\n")
    return 0 if len(roots) == 1 else 1


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


if __name__ == "__main__":
    raise SystemExit(main())
