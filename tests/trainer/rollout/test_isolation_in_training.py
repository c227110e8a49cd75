"""Training runs against opponents that fail: all is in the failure log, in one process and two, with workers or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import faulty_run
from tests.trainer.faulty import count_faults

RAISING = "reset,act,result,leave"
FIELDS = {
    "attempt",
    "env_id",
    "episode",
    "given_up",
    "group",
    "kind",
    "member",
    "opponent",
    "phase",
    "reason",
    "seat",
    "seed",
    "step",
    "task",
    "traceback",
}


def run(model: str, folder: Path, workers: int, faults: str, ranks: int = 1) -> dict[str, Any]:
    folder.mkdir()
    log = folder.parent / "log"  # one place for all runs that are compared, as tracebacks do not name it
    log.unlink(missing_ok=True)
    arguments = [model, str(folder), str(log), str(workers), faults]
    if ranks == 1:
        faulty_run.main(*arguments)
    else:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        process = subprocess.run(
            [*launch, faulty_run.__file__, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert process.returncode == 0, process.stderr[-3000:]
    report: dict[str, Any] = json.loads((folder / "played.json").read_text())
    assert report["processes"] == ranks
    check_ledger(folder, report, count_faults(log))
    return report


def check_ledger(folder: Path, report: dict[str, Any], expected: Counter[str]) -> None:
    """As many lines of each kind as were made to happen, and the same totals in the log and at the end."""
    rows = [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]
    assert sum(expected.values()) > 1
    assert Counter(row["kind"] for row in rows) == expected
    assert len(rows) == report["failures"] == report["logged"][-1]["failures/total"]
    assert report["told"].startswith(f"Failures: {len(rows)} (")
    for row in rows:
        assert set(row) == FIELDS
        assert row["phase"] == "train"
        assert "faulty.py" in row["traceback"] or "SIGKILL" in row["reason"]
    logged = sum(
        (
            Counter({k: v for k, v in entry.items() if k.startswith("failures/") and k != "failures/total"})
            for entry in report["logged"]
        ),
        Counter(),
    )
    assert logged == {f"failures/{kind}": count for kind, count in expected.items()}


def test_exceptions_with_and_without_workers(model_path: str, tmp_path: Path) -> None:
    """Compare trajectories, rewards and logs byte for byte.

    The run has one worker, because the members of a group meet the same hands, and this opponent fails for the first
    member that meets a hand.
    """
    plain = run(model_path, tmp_path / "plain", 0, RAISING)
    workers = run(model_path, tmp_path / "workers", 1, RAISING)
    assert plain["trajectories"] == workers["trajectories"]
    assert plain["logged"] == workers["logged"]


def test_hangs_and_deaths_in_workers(model_path: str, tmp_path: Path) -> None:
    run(model_path, tmp_path / "run", 2, "sleep,segfault,kill,reset")


@pytest.mark.more
@pytest.mark.parametrize(("workers", "faults"), [pytest.param(0, RAISING, marks=pytest.mark.slow), (1, "kill,act")])
def test_two_processes(model_path: str, tmp_path: Path, workers: int, faults: str) -> None:
    run(model_path, tmp_path / "run", workers, faults, ranks=2)
