"""Errors of the disk at random calls of a resume: the run ends as an unbroken one, and no stored line is lost."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from tests.packages import mark_params

EVAL = (
    *("eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--no-baselines"),
    *("--opponents", "kuhn/nash", "--rows", "4", "--out"),
)
CALLS = ("open", "fsync", "replace", "unlink", "listdir")
ERRORS = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EXDEV, errno.EMFILE, errno.EACCES)


@pytest.fixture(scope="module")
def complete_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an unbroken run in shards of two lines."""
    folder = tmp_path_factory.mktemp("faults") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_store, "SHARD", 2)
        assert main([*EVAL, str(folder)]) == 0
    return folder


def read_seconds(folder: Path) -> set[str]:
    """Return the durations of the good lines, which no other run has."""
    return {json.dumps(line["seconds"]) for line in Records(folder).lines.values()}


@pytest.mark.parametrize("seed", mark_params(range(40), step=4))
def test_an_error_anywhere_loses_nothing(
    seed: int, complete_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "SHARD", 2)
    run = tmp_path / "run"
    shutil.copytree(complete_run, run)
    rng = np.random.default_rng(seed)
    # One line is missing and one is damaged, so that the resume reads, repairs, plays and sorts.
    last_shard, damaged = run / "episodes" / "00003.jsonl.gz", run / "episodes" / "00001.jsonl.gz"
    last_shard.write_bytes(gzip.compress(gzip.decompress(last_shard.read_bytes()).splitlines(keepends=True)[0]))
    lines = gzip.decompress(damaged.read_bytes()).splitlines(keepends=True)
    damaged.write_bytes(gzip.compress(lines[0].replace(b'"penalty":0', b'"penalty":9', 1) + lines[1]))
    stored_before = read_seconds(run)
    assert len(stored_before) == 6

    name, kind, failing_call = str(rng.choice(CALLS)), int(rng.choice(ERRORS)), int(rng.integers(1, 25))
    count = 0
    real = getattr(os, name)

    def fail(path: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal count
        target = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fsdecode(path)
        if target.startswith(str(run)):
            count += 1
            if count == failing_call:
                raise OSError(kind, os.strerror(kind), target)
        return real(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        assert main([*EVAL, str(run), "--resume"]) in (0, 2)
    assert stored_before <= read_seconds(run), (name, kind, failing_call)
    assert main([*EVAL, str(run), "--resume"]) == 0
    assert stored_before <= read_seconds(run)
    assert Records(run).root() == Records(complete_run).root()
    assert not list(run.rglob("*.partial"))
