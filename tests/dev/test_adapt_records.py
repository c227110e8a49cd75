"""The committed records of the reference rows of `adapt-mini`."""

from __future__ import annotations

import tarfile

from benchmarks.__main__ import main
from dev.adapt_records import ARCHIVE, ROWS, TABLE, table_of, unpack
from mage_envs.cli.tables import as_text


def test_the_archive_has_the_records_of_every_row():
    with tarfile.open(ARCHIVE) as archive:
        names = [one.name for one in archive.getmembers()]
    assert {name.partition("/")[0] for name in names} == set(ROWS)
    assert ARCHIVE.stat().st_size < 500_000


def test_the_records_of_a_row_are_valid_and_give_its_scores(tmp_path, capsys):
    # `python -m dev.adapt_records` does the same for all rows.
    unpack(tmp_path, ["words"])
    assert main(["validate", str(tmp_path / "words")]) == 0
    assert main(["replay", "--verify", str(tmp_path / "words")]) == 0
    capsys.readouterr()
    [row] = [line for line in as_text(table_of(tmp_path, ["words"])).splitlines() if line.startswith("words ")]
    [stored] = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("words ")]
    assert row.split() == stored.split()
