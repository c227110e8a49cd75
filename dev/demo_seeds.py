"""`make demo-seeds`: the demo with three seeds, each checked against its requirements, and a report."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.demo.demo_table import HELD_OUT, DemoResult, blocks
from mage_envs.benchmarks.demo.run import DemoSettings, run
from mage_envs.cli.tables import as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.progress import ProgressLine

SEEDS = (0, 1, 2)
FOLDER = Path("runs/demo-seeds")
REPORT = Path(__file__).parents[1] / "benchmarks" / "results" / "demo_seeds.md"


def requirements(result: DemoResult) -> Mapping[str, bool]:
    """Return the requirements of `make demo-seeds`, with True for each that the result meets."""
    overall, rock = result.training.overall, result.held_out.rows[HELD_OUT.index("kuhn/rock")]
    gain, rock_gain, level = overall.gain, rock.gain, result.judged.level
    other_value = result.judged.runs["other"].episode_value(len(overall.episodes) - 1)
    assert gain is not None
    assert rock_gain is not None
    assert level is not None
    assert other_value is not None
    last_mean = overall.episodes[-1].returns.estimate.mean
    low = "n/a" if gain.low is None else f"{gain.low:+.3f}"
    return {
        f"level {level.mean:.2f} >= 0.6": level.mean >= 0.6,
        f"verdict {result.judged.verdict}": result.judged.verdict == "adapts",
        f"gain over the training opponents {gain.mean:+.3f} >= 0.07": gain.mean >= 0.07,
        f"lower end of its interval {low} above 0": gain.low is not None and gain.low > 0,
        f"last episode {last_mean:+.3f} >= 0.22": last_mean >= 0.22,
        f"with another opponent's memory {other_value.mean:+.3f} <= 0.10": other_value.mean <= 0.10,
        f"gain against kuhn/rock {rock_gain.mean:+.3f} >= 0.10": rock_gain.mean >= 0.10,
    }


def _seed(seed: int, folder: Path) -> dict[str, Any] | None:
    """Return the `text` of a seed's run and whether it met all requirements (`reached`), or None if Ctrl-C stopped it.

    A finished run is loaded from its file.
    """
    report_path = folder / "report.json"
    if report_path.exists():
        report: dict[str, Any] = json.loads(report_path.read_text())
        return report
    start = time.monotonic()
    result = run(DemoSettings(seed), folder, ProgressLine())
    if result is None:
        return None
    checks = requirements(result)
    lines = "\n".join(f"- {'reached' if is_met else 'MISSED'}: {text}" for text, is_met in checks.items())
    text = f"## Seed {seed}, {time.monotonic() - start:.0f} s\n\n```\n{as_text(blocks(result))}```\n\n{lines}\n"
    report = {"text": text, "reached": all(checks.values())}
    write_atomically(report_path, json.dumps(report))
    return report


def main() -> int:
    """Run all seeds and write the report. Return 1 if a seed misses a requirement, 130 if Ctrl-C stopped it."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parts = [
        "# The demo in three seeds\n\nWritten by `make demo-seeds` "
        f"({os.cpu_count()} CPU cores, Python {platform.python_version()}).\n"
    ]
    reached = []
    for seed in SEEDS:
        report = _seed(seed, FOLDER / str(seed))
        if report is None:
            print(f"\nStopped. The finished seeds are in {FOLDER}. `make demo-seeds` runs the others.")
            return 130
        parts.append(report["text"])
        reached.append(report["reached"])
        print(report["text"], flush=True)
    shutil.copy(FOLDER / str(SEEDS[0]) / "adaptation.png", REPORT.with_name("adaptation.png"))
    parts.append(f"All requirements reached in {sum(reached)} of {len(reached)} seeds.\n")
    # The report is written before the runs are removed, because it cannot be made again without them.
    write_atomically(REPORT, "\n".join(parts))
    shutil.rmtree(FOLDER)
    print(f"{parts[-1]}Report: {REPORT}", file=sys.stdout)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    raise SystemExit(main())
