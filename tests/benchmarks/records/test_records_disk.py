"""Disks that are full, folders that may not be written: one line says so, and what was written stays."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker

EVAL = ["eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "uniform", "--rows", "8", "--out"]
"""16 meta-episodes."""
COLUMNS = """
- {name: one, agent: {kuhn-train: "scripted:last"}, memory: none}
- {name: two, agent: {kuhn-train: "scripted:first"}, memory: none}
"""
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
    monkeypatch.setattr(record_store, "SHARD", 4)
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
        f"mage: {shard}: No space left on device; free some space. {kept} of 16 meta-episodes are kept; the same "
        "command with --resume continues the run."
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
    assert last == f"mage: {own / 'run' / 'run.json'}: No space left on device; free some space."
    assert main([*EVAL, str(own / "run")]) == 0


def test_a_folder_that_may_not_be_written_is_told_before_anything_is_played(own, capsys):
    own.chmod(0o555)
    with not_root():
        assert main([*EVAL, str(own / "run")]) == 2
    told = capsys.readouterr().err
    assert told == f"mage: {own / 'run'}: Permission denied; name a place that you may use.\n"
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
    assert told == f"mage: {own / 'run' / '.lock'}: Permission denied; name a place that you may use.\n"


def suite_in(folder):
    """Two runs of 16 meta-episodes."""
    return ["eval", str(folder / "c.yaml"), "--suite", "demo", "--quick", "--out", str(folder / "s")]


def last_line(capsys):
    return capsys.readouterr().err.splitlines()[-1]


def test_suites_and_reports_on_a_full_disk(own, capsys):
    """Writes of a suite: its plan, run.json, four shards, root.json, summary.json, scores.csv, run.json."""
    (own / "c.yaml").write_text(COLUMNS)
    with full_after(0):
        assert main(suite_in(own)) == 2
    assert last_line(capsys) == f"mage: {own / 's' / 'suite.json'}: No space left on device; free some space."
    with full_after(4):
        assert main(suite_in(own)) == 2
    shard = own / "s" / "kuhn-train" / "one" / "episodes" / "00002.jsonl.gz"
    assert last_line(capsys).startswith(f"mage: {shard}: No space left on device; free some space. 8 of 16 ")
    assert main([*suite_in(own), "--resume"]) == 0
    assert main(["verify", str(own / "s")]) == 0
    before = (own / "s" / "report.html").read_bytes()
    with full_after(0):
        assert main(["report", str(own / "s"), "--out", str(own / "s" / "report.html")]) == 2
    assert last_line(capsys) == f"mage: {own / 's' / 'report.html'}: No space left on device; free some space."
    assert (own / "s" / "report.html").read_bytes() == before
    assert not list(own.rglob("*.partial"))


def test_suites_and_reports_where_nothing_may_be_written(own, capsys):
    (own / "c.yaml").write_text(COLUMNS)
    assert main([*EVAL, str(own / "run")]) == 0
    own.chmod(0o555)
    capsys.readouterr()
    for words, place in (suite_in(own), "s"), (["report", str(own / "run"), "--out", str(own / "a.html")], "a.html"):
        with not_root():
            assert main(words) == 2
        told = capsys.readouterr().err
        assert told == f"mage: {own / place}: Permission denied; name a place that you may use.\n"
        assert not (own / place).exists()


def test_data_that_are_not_those_of_the_run(own, capsys, monkeypatch):
    assert main([*EVAL, str(own / "run")]) == 0
    monkeypatch.setattr(KuhnPoker, "data_hash", lambda game: "f00")
    assert main([*EVAL, str(own / "run"), "--resume"]) == 2
    told = last_line(capsys)
    assert "holds a run with other settings (fingerprint " in told
    assert 'setting.options.data null there, "f00" now' in told
    with pytest.raises(SystemExit, match="1"):
        main(["verify", str(own / "run")])
    out = capsys.readouterr().out
    assert 'run.json: setting.options.data is null, and this version with these data makes "f00"' in out
    assert main(["report", str(own / "run"), "--out", str(own / "a.html")]) == 0
    assert "its data or this version are OTHERS" in (own / "a.html").read_text()
