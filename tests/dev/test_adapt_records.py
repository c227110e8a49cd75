"""The committed records of the reference rows of `adapt` and `adapt-mini`."""

from __future__ import annotations

import json
import shutil
import tarfile

import pytest

from dev.adapt_records import ARCHIVE, FULL_ARCHIVE, ROWS, TABLE, check_references, table_of, unpack, verify_rows
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, REFERENCES
from mage_envs.benchmarks.records.record_store import SUITE, read_suite
from mage_envs.benchmarks.scale.stored_suites import restore_sources
from mage_envs.cli.program import main
from mage_envs.cli.tables import as_text


def test_the_archive_has_the_records_of_every_row():
    with tarfile.open(ARCHIVE) as archive:
        names = [member.name for member in archive.getmembers()]
    assert {name.partition("/")[0] for name in names} == set(ROWS)
    assert ARCHIVE.stat().st_size < 1_000_000


def test_the_records_of_a_row_are_valid_and_give_its_scores(tmp_path, capsys):
    # `python -m dev.adapt_records` does the same for all rows.
    unpack(tmp_path, ["myopic"])
    # Another machine does not have the memories that the control runs copied.
    restore_sources(tmp_path / "myopic")
    assert main(["verify", str(tmp_path / "myopic")]) == 0
    assert main(["verify", "--replay", str(tmp_path / "myopic")]) == 0
    capsys.readouterr()
    [row] = [line for line in as_text(table_of(tmp_path, ["myopic"])).splitlines() if line.startswith("myopic ")]
    [stored] = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("myopic ")]
    assert row.split() == stored.split()


@pytest.mark.more
def test_the_records_of_the_whole_suite_have_all_cells_and_give_the_stored_scores(tmp_path):
    assert FULL_ARCHIVE.stat().st_size < 4_500_000
    with tarfile.open(FULL_ARCHIVE) as archive:
        members = archive.getmembers()
    runs = {tuple(member.name.split("/")[:2]) for member in members if member.name.count("/") > 1}
    expected = {(name, cell) for name in REFERENCES for cell in CELLS if CELLS[cell].agent(name)}
    controls = {(name, cell) for name, cell in expected if not CELLS[cell].control}
    assert runs == expected
    folders = {tuple(member.name.split("/")[:3]) for member in members if member.name.count("/") > 2}
    assert folders >= {(name, cell, control) for name, cell in controls for control in ("none", "other")}
    unpack(tmp_path, ["nash", "no-memory"], FULL_ARCHIVE)
    for name in ("nash", "no-memory"):
        plan = read_suite(tmp_path / name)
        assert plan is not None
        # All cells take minutes: `python -m dev.adapt_records --suite adapt`.
        kept_runs = [run for run in plan["runs"] if run["folder"].split("/")[0] in ("ultimatum", "success")]
        (tmp_path / name / SUITE).write_text(json.dumps(plan | {"runs": kept_runs}))
    check_references(tmp_path, ["nash", "no-memory"])
    # Records of another player do not pass for these.
    shutil.rmtree(tmp_path / "nash")
    shutil.copytree(tmp_path / "no-memory", tmp_path / "nash")
    with pytest.raises(ValueError, match="nash, ultimatum"):
        check_references(tmp_path, ["nash"])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_records_of_the_whole_suite_are_valid(tmp_path):
    unpack(tmp_path, REFERENCES, FULL_ARCHIVE)
    verify_rows(tmp_path, REFERENCES)
    check_references(tmp_path)
