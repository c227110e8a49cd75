"""Full disks and read-only folders: one line reports the error, and the written files stay."""

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
    writes_left = [writes]
    real = os.fsync

    def fsync(handle):
        if not os.path.isdir(f"/proc/self/fd/{handle}"):
            writes_left[0] -= 1
            if writes_left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextmanager
def not_root():
    """Run the block with the rights of a user that owns no file."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder(monkeypatch):
    """A folder that everybody may enter; shards of four lines."""
    monkeypatch.setattr(record_store, "SHARD", 4)
    folder = Path(tempfile.mkdtemp(prefix="mage-disk-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("writes", "num_stored"), [(1, 0), (2, 4), (4, 12)])
def test_a_full_disk_is_reported_in_one_line_and_keeps_the_written_lines(open_folder, capsys, writes, num_stored):
    """The first write is run.json's."""
    folder = open_folder / "run"
    with full_after(writes):
        assert main([*EVAL, str(folder)]) == 2
    last_message = capsys.readouterr().err.splitlines()[-1]
    shard = folder / "episodes" / f"{num_stored // 4:05d}.jsonl.gz"
    assert last_message == (
        f"mage: {shard}: No space left on device; free some space. {num_stored} of 16 meta-episodes are kept; the same "
        "command with --resume continues the run."
    )
    assert not list(folder.rglob("*.partial"))
    records = Records(folder)
    assert (len(records.lines), records.problems) == (num_stored, [])
    assert main([*EVAL, str(folder), "--resume"]) == 0
    assert main([*EVAL, str(open_folder / "whole")]) == 0
    assert Records(folder).root() == Records(open_folder / "whole").root()


def test_a_disk_that_is_full_from_the_start(open_folder, capsys):
    with full_after(0):
        assert main([*EVAL, str(open_folder / "run")]) == 2
    last_message = capsys.readouterr().err.splitlines()[-1]
    assert last_message == f"mage: {open_folder / 'run' / 'run.json'}: No space left on device; free some space."
    assert main([*EVAL, str(open_folder / "run")]) == 0


def test_a_read_only_folder_is_reported_before_anything_is_played(open_folder, capsys):
    open_folder.chmod(0o555)
    with not_root():
        assert main([*EVAL, str(open_folder / "run")]) == 2
    stderr = capsys.readouterr().err
    assert stderr == f"mage: {open_folder / 'run'}: Permission denied; name a place that you may use.\n"
    open_folder.chmod(0o755)
    assert main([*EVAL, str(open_folder / "run")]) == 0
    shutil.rmtree(open_folder / "run" / "episodes")
    for path in (open_folder / "run").iterdir():
        path.chmod(0o444)
    (open_folder / "run").chmod(0o555)
    capsys.readouterr()
    with not_root():
        assert main([*EVAL, str(open_folder / "run"), "--resume"]) == 2
    stderr = capsys.readouterr().err
    assert stderr == f"mage: {open_folder / 'run' / '.lock'}: Permission denied; name a place that you may use.\n"


def suite_in(folder):
    """Two runs of 16 meta-episodes."""
    return ["eval", str(folder / "c.yaml"), "--suite", "demo", "--quick", "--out", str(folder / "s")]


def last_line(capsys):
    return capsys.readouterr().err.splitlines()[-1]


def test_suites_and_reports_on_a_full_disk(open_folder, capsys):
    """Writes of a suite: its plan, run.json, four shards, root.json, summary.json, scores.csv, run.json."""
    (open_folder / "c.yaml").write_text(COLUMNS)
    with full_after(0):
        assert main(suite_in(open_folder)) == 2
    assert last_line(capsys) == f"mage: {open_folder / 's' / 'suite.json'}: No space left on device; free some space."
    with full_after(4):
        assert main(suite_in(open_folder)) == 2
    shard = open_folder / "s" / "kuhn-train" / "one" / "episodes" / "00002.jsonl.gz"
    assert last_line(capsys).startswith(f"mage: {shard}: No space left on device; free some space. 8 of 16 ")
    assert main([*suite_in(open_folder), "--resume"]) == 0
    assert main(["verify", str(open_folder / "s")]) == 0
    report_before = (open_folder / "s" / "report.html").read_bytes()
    with full_after(0):
        assert main(["report", str(open_folder / "s"), "--out", str(open_folder / "s" / "report.html")]) == 2
    assert last_line(capsys) == f"mage: {open_folder / 's' / 'report.html'}: No space left on device; free some space."
    assert (open_folder / "s" / "report.html").read_bytes() == report_before
    assert not list(open_folder.rglob("*.partial"))


def test_suites_and_reports_where_nothing_may_be_written(open_folder, capsys):
    (open_folder / "c.yaml").write_text(COLUMNS)
    assert main([*EVAL, str(open_folder / "run")]) == 0
    open_folder.chmod(0o555)
    capsys.readouterr()
    for words, name in (
        (suite_in(open_folder), "s"),
        (["report", str(open_folder / "run"), "--out", str(open_folder / "a.html")], "a.html"),
    ):
        with not_root():
            assert main(words) == 2
        stderr = capsys.readouterr().err
        assert stderr == f"mage: {open_folder / name}: Permission denied; name a place that you may use.\n"
        assert not (open_folder / name).exists()


def test_data_that_are_not_those_of_the_run(open_folder, capsys, monkeypatch):
    assert main([*EVAL, str(open_folder / "run")]) == 0
    monkeypatch.setattr(KuhnPoker, "data_hash", lambda game: "f00")
    assert main([*EVAL, str(open_folder / "run"), "--resume"]) == 2
    message = last_line(capsys)
    assert "holds a run with other settings (fingerprint " in message
    assert 'setting.options.data null there, "f00" now' in message
    with pytest.raises(SystemExit, match="1"):
        main(["verify", str(open_folder / "run")])
    out = capsys.readouterr().out
    assert 'run.json: setting.options.data is null, and this version with these data makes "f00"' in out
    assert main(["report", str(open_folder / "run"), "--out", str(open_folder / "a.html")]) == 0
    assert "its data or this version are OTHERS" in (open_folder / "a.html").read_text()
