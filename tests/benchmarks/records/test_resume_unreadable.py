"""A resumed run never replaces a file that it could not read."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.files import bounded
from tests.packages import mark_params

EVAL = (
    *("eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--no-baselines"),
    *("--opponents", "kuhn/nash", "--rows", "4", "--out"),
)
FAULTS = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.EACCES, errno.ENOSPC, errno.ETIMEDOUT)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run of four shards, of which the last line is missing."""
    monkeypatch.setattr(record_store, "SHARD", 2)
    folder = tmp_path / "run"
    assert main([*EVAL, str(folder)]) == 0
    edit(sorted((folder / "episodes").iterdir())[-1], lambda lines: lines[:-1])
    return folder


def edit(shard: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    lines = gzip.decompress(shard.read_bytes()).splitlines(keepends=True)
    shard.write_bytes(gzip.compress(b"".join(change(lines)), mtime=0))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def failing(name: str, kind: int, calls: int = 10**9, num_before: int = 0) -> Iterator[None]:
    """Let `calls` openings of a file fail, after the first `num_before`."""
    real, count = bounded.open_inside, [0]

    def open_inside(folder: Path, path: str) -> Any:
        if path.endswith(name):
            count[0] += 1
            if num_before < count[0] <= num_before + calls:
                raise OSError(kind, os.strerror(kind), path)
        return real(folder, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "open_inside", open_inside)
        yield


@pytest.mark.parametrize("name", ["run.json", "00000.jsonl.gz", "00003.jsonl.gz"])
@pytest.mark.parametrize("kind", mark_params(FAULTS, step=3), ids=errno.errorcode.get)
def test_a_file_that_cannot_be_read_now_ends_the_resume(
    name: str, kind: int, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content_before = content(run)
    with failing(name, kind):
        assert main([*EVAL, str(run), "--resume"]) == 2
    assert content(run) == content_before
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert os.strerror(kind) in line
    assert "Traceback" not in line
    assert main([*EVAL, str(run), "--resume"]) == 0
    assert len(Records(run).lines) == 8


@pytest.mark.parametrize("num_before", range(1, 7))
def test_an_error_at_a_later_read_loses_no_line(num_before: int, run: Path, tmp_path: Path) -> None:
    assert main([*EVAL, str(tmp_path / "whole")]) == 0
    edit(
        run / "episodes" / "00001.jsonl.gz",
        lambda lines: [lines[0].replace(b'"penalty":0', b'"penalty":9', 1), *lines[1:]],
    )
    seconds = {json.dumps(line["seconds"]) for line in Records(run).lines.values()}
    with failing(".gz", errno.EIO, calls=1, num_before=num_before):
        main([*EVAL, str(run), "--resume"])
    assert seconds <= {json.dumps(line["seconds"]) for line in Records(run).lines.values()}
    assert main([*EVAL, str(run), "--resume"]) == 0
    assert Records(run).root() == Records(tmp_path / "whole").root()


def test_a_folder_that_cannot_be_listed_ends_the_resume(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content_before, real = content(run), os.listdir

    def listdir(path: Any) -> list[str]:
        if str(path).endswith("episodes"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        assert main([*EVAL, str(run), "--resume"]) == 2
        assert main([*EVAL, str(run)]) == 2
    assert content(run) == content_before


@pytest.mark.parametrize("inside", [True, False])
def test_a_linked_folder_of_episodes_is_refused_before_anything_is_played(
    inside: bool, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = (run if inside else tmp_path) / "elsewhere"
    (run / "episodes").rename(elsewhere)
    (run / "episodes").symlink_to(elsewhere)
    content_before = content(run) | content(elsewhere)
    assert main([*EVAL, str(run), "--resume"]) == 2
    assert content(run) | content(elsewhere) == content_before
    assert f"{run}/episodes is a link to '{elsewhere}'; make {run} the link instead" in capsys.readouterr().err


def test_a_linked_run_is_resumed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    run.rename(tmp_path / "disk" / "run")
    run.symlink_to(tmp_path / "disk" / "run")
    assert main([*EVAL, str(run), "--resume"]) == 0
    assert len(Records(run).lines) == 8


def test_a_damaged_shard_is_kept_beside_the_repaired_one(run: Path, tmp_path: Path) -> None:
    shard = run / "episodes" / "00001.jsonl.gz"
    for number, name in enumerate(("00001.jsonl.gz.damaged", "00001.jsonl.gz.damaged-2"), start=1):
        edit(shard, lambda lines, n=number: [lines[0].replace(b'"penalty":0', b'"penalty":%d' % n, 1), *lines[1:]])
        damaged = shard.read_bytes()
        assert main([*EVAL, str(run), "--resume"]) == 0
        assert (run / "episodes" / name).read_bytes() == damaged
        assert (Records(run).problems, len(Records(run).lines)) == ([], 8)
    assert main(["verify", str(run)]) == 0


def test_a_file_of_another_name_is_left_alone(run: Path) -> None:
    (run / "episodes" / "notes.jsonl.gz").write_bytes(b"notes")
    assert main([*EVAL, str(run), "--resume"]) == 0
    assert (run / "episodes" / "notes.jsonl.gz").read_bytes() == b"notes"


@pytest.mark.parametrize("form", ["link", "hard link", "text", "pipe", "folder"])
def test_a_lock_that_is_another_file_is_refused(
    form: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious, lock = tmp_path / "precious", run / ".lock"
    precious.write_text("1\n")
    {
        "link": lambda: lock.symlink_to(precious),
        "hard link": lambda: lock.hardlink_to(precious),
        "text": lambda: lock.write_text("precious\n"),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
    }[form]()
    assert main([*EVAL, str(run), "--resume"]) == 2
    assert str(lock) in capsys.readouterr().err.splitlines()[-1]
    assert precious.read_text() == "1\n"
    assert form != "text" or lock.read_text() == "precious\n"


def test_a_lock_that_a_killed_process_left_is_used(run: Path) -> None:
    (run / ".lock").write_text("123456\n")
    assert main([*EVAL, str(run), "--resume"]) == 0
