"""What records cost: CPU time of playing alone, of playing with records, and of executing them again.

`python -m benchmarks.speed.records`. Each round measures all three of a panel, one after the other, in one process; the
ratios of a round are compared with `RECORDING` and `REPLAY`. The agent is scripted: nothing but the suite is paid for.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.evaluation.agents import make_agent
from benchmarks.evaluation.evaluate import evaluate
from benchmarks.evaluation.suites.panels import named_panel
from benchmarks.evaluation.suites.settings import Setting
from benchmarks.records.about import about_run
from benchmarks.records.replay import replay
from benchmarks.records.store import Records, Writer

RECORDING, REPLAY = 1.2, 1.3
"""Times the CPU time of playing, at most: records with their digests, and `replay --verify`."""
PANELS = ("kuhn-paper-512", "tictactoe-paper-128", "sokoban-eval-2box-128")
ROUNDS = 5


def cpu(work: Callable[[], Any]) -> float:
    """Seconds, of this process with its system calls."""
    started = time.process_time()
    work()
    return time.process_time() - started


def round_of(setting: Setting, about: dict[str, Any], folder: Path) -> tuple[float, float, float]:
    """CPU seconds of playing, of playing with records, and of reading and executing these again."""
    agent = make_agent("scripted:random")

    def recorded() -> None:
        writer = Writer(folder, about, resume=False)
        evaluate(agent, setting.tasks, setting.options, on_finished=writer.add)
        writer.close()

    def again() -> None:
        lines = [line for _, line in sorted(Records(folder).lines.items())]
        if found := replay(lines, setting):
            raise RuntimeError(f"{len(found)} meta-episodes came out otherwise.")

    return cpu(lambda: evaluate(agent, setting.tasks, setting.options)), cpu(recorded), cpu(again)


def measure(panel: str, rounds: int) -> list[tuple[float, float, float]]:
    """The rounds of a panel, after one that only warms up."""
    setting = Setting(named_panel(panel), panel, {})
    about = about_run(make_agent("scripted:random"), setting)
    found = []
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            times = round_of(setting, about, Path(folder) / "run")
        if number:
            found.append(times)
    return found


def main() -> None:
    """Writes a line per panel to stdout."""
    for panel in PANELS:
        found = measure(panel, ROUNDS)
        played = statistics.median(times[0] for times in found)
        recording = statistics.median(times[1] / times[0] for times in found)
        replaying = statistics.median(times[2] / times[0] for times in found)
        sys.stdout.write(f"{panel}: playing {played:.2f} CPU s, with records {recording:.2f} times that ")
        sys.stdout.write(f"(at most {RECORDING:g}), executed again {replaying:.2f} (at most {REPLAY:g})\n")


if __name__ == "__main__":
    main()
