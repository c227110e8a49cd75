"""The speed command runs on a tiny catalogue and leaves nothing behind; how fast it is does not matter here."""

import json
import shutil

import pytest

from dev.speed.webshop import WebShopLine, main, measure, table
from mage_envs.games.webshop.official import SIZES, read_array, read_object


@pytest.mark.more
def test_a_tiny_run(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    data = tmp_path / "data"
    data.mkdir()
    main(["--products", "60", "--size", "tiny", "--folder", str(data), "--json", str(figures)])
    figure_lines = json.loads(figures.read_text())
    assert list(data.iterdir()) == []
    names = {line["name"] for line in figure_lines}
    assert {"importing them", "search, p50", "steps per CPU-second", "opening, wall time"} <= names
    assert all(line["value"] >= 0 for line in figure_lines)
    out = capsys.readouterr().out.splitlines()
    assert len(out) == len(figure_lines)
    assert out[0].startswith(" built in  first step, size 'tiny' generated for it")
    assert out[1].startswith(" built in  first step, size 'tiny' there")


def test_the_generated_files_have_the_official_form(tmp_path):
    from dev.speed.webshop import write_files

    write_files(tmp_path, 60)
    products = list(read_array(tmp_path / SIZES["full"].products))
    about = dict(read_object(tmp_path / SIZES["full"].instructions))
    people = dict(read_object(tmp_path / "items_human_ins.json"))
    assert {raw["asin"] for raw in products} == set(about) == set(people)
    assert sum(entry["instruction"] is not None for entry in about.values()) == 6
    assert sum(map(len, people.values())) == 120


def test_a_full_disk_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(OSError, match=r"1,000 products need 0.0 GB in"):
        measure(1000, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_table_names_the_missed_targets():
    lines = [
        WebShopLine(1000, "one", 2.0, "ms", target=1),
        WebShopLine(1000, "two", 2000.0, "", target=5, most=False),
        WebShopLine(0, "three", 1.0, "s"),
    ]
    assert [line.met for line in lines] == [False, True, None]
    assert [row.split()[-1] for row in table(lines).splitlines()] == ["MISSED", "met", "s"]
