"""Cost of records: CPU time of playing alone, of playing with records, and of executing the records again.

`python -m dev.speed.records`. Each round measures all three for a panel, one after the other, in one process.
The ratios of a round are compared with `RECORDING` and `REPLAY`. The agent is scripted, so all time is the suite's own.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.benchmarks.records.replay import replay

RECORDING, REPLAY = 1.2, 1.3
"""Upper limits as multiples of the CPU time of playing: records with their digests, and `replay --verify`."""
PANELS = ("kuhn-paper-512", "tictactoe-paper-128", "sokoban-eval-2box-128")
ROUNDS = 5


def cpu(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of `work` in this process, including system calls."""
    start_time = time.process_time()
    work()
    return time.process_time() - start_time


def round_of(setting: Setting, about: dict[str, Any], folder: Path) -> tuple[float, float, float]:
    """Return CPU seconds of playing, of playing with records, and of reading and executing the records.

    Args:
        setting: Panel and options of the environment.

    Raises:
        RuntimeError: If the execution of the records has another result.
    """
    agent = make_agent("scripted:random")

    def record() -> None:
        writer = Writer(folder, about, resume=False)
        evaluate(agent, setting.tasks, setting.options, on_finished=writer.add)
        writer.close()

    def again() -> None:
        lines = [line for _, line in sorted(Records(folder).lines.items())]
        if differences := replay(lines, setting):
            raise RuntimeError(f"The replay of {len(differences)} meta-episodes differs from their records.")

    return cpu(lambda: evaluate(agent, setting.tasks, setting.options)), cpu(record), cpu(again)


def measure(panel: str, rounds: int) -> list[tuple[float, float, float]]:
    """Return the times of a panel's rounds."""
    setting = Setting(named_panel(panel), panel, {})
    about = about_run(make_agent("scripted:random"), setting)
    rounds_measured = []
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            times = round_of(setting, about, Path(folder) / "run")
        # The first round only warms up caches and imports.
        if number:
            rounds_measured.append(times)
    return rounds_measured


def main() -> None:
    """Write one line per panel to stdout."""
    for panel in PANELS:
        rounds = measure(panel, ROUNDS)
        playing = statistics.median(times[0] for times in rounds)
        # Ratios within a round, because the load of the machine may change between rounds.
        recording = statistics.median(times[1] / times[0] for times in rounds)
        replaying = statistics.median(times[2] / times[0] for times in rounds)
        sys.stdout.write(f"{panel}: playing {playing:.2f} CPU s, with records {recording:.2f} times that ")
        sys.stdout.write(f"(at most {RECORDING:g}), executed again {replaying:.2f} (at most {REPLAY:g})\n")


if __name__ == "__main__":
    main()
