"""Disks that are full, folders that may not be written: one line says so, and what was written stays."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.records import store
from benchmarks.records.store import Records

EVAL = ["eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "uniform", "--rows", "8", "--out"]
"""16 meta-episodes."""
NOBODY = 65534


@contextmanager
def full_after(writes):
    """No file reaches the disk after so many."""
    left = [writes]
    real = os.fsync

    def fsync(handle):
        if not os.path.isdir(f"/proc/self/fd/{handle}"):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextmanager
def not_root():
    """With the rights of somebody who owns nothing."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def own(monkeypatch):
    """A folder that everybody may enter; shards of four lines."""
    monkeypatch.setattr(store, "SHARD", 4)
    folder = Path(tempfile.mkdtemp(prefix="mage-disk-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("writes", "kept"), [(1, 0), (2, 4), (4, 12)])
def test_a_full_disk_is_told_in_one_line_and_keeps_what_was_written(own, capsys, writes, kept):
    """The first write is run.json's."""
    folder = own / "run"
    with full_after(writes):
        assert main([*EVAL, str(folder)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    shard = folder / "episodes" / f"{kept // 4:05d}.jsonl.gz"
    assert last == (
        f"mage-bench: {shard}: No space left on device; free some space. {kept} of 16 meta-episodes are kept; the same "
        "command with --resume goes on from there."
    )
    assert not list(folder.rglob("*.partial"))
    found = Records(folder)
    assert (len(found.lines), found.problems) == (kept, [])
    assert main([*EVAL, str(folder), "--resume"]) == 0
    assert main([*EVAL, str(own / "whole")]) == 0
    assert Records(folder).root() == Records(own / "whole").root()


def test_a_disk_that_is_full_from_the_start(own, capsys):
    with full_after(0):
        assert main([*EVAL, str(own / "run")]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"mage-bench: {own / 'run' / 'run.json'}: No space left on device; free some space."
    assert main([*EVAL, str(own / "run")]) == 0


def test_a_folder_that_may_not_be_written_is_told_before_anything_is_played(own, capsys):
    own.chmod(0o555)
    with not_root():
        assert main([*EVAL, str(own / "run")]) == 2
    told = capsys.readouterr().err
    assert told == f"mage-bench: {own / 'run'}: Permission denied; name a place that you may use.\n"
    own.chmod(0o755)
    assert main([*EVAL, str(own / "run")]) == 0
    shutil.rmtree(own / "run" / "episodes")
    for path in (own / "run").iterdir():
        path.chmod(0o444)
    (own / "run").chmod(0o555)
    capsys.readouterr()
    with not_root():
        assert main([*EVAL, str(own / "run"), "--resume"]) == 2
    told = capsys.readouterr().err
    assert told == f"mage-bench: {own / 'run' / 'episodes'}: Permission denied; name a place that you may use.\n"
