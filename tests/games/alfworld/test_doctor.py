"""`mage doctor`: every part is named, with the finding or the remedy."""

from __future__ import annotations

import json

from dev.alfworld_data import write_dataset
from mage_envs.benchmarks.commands.doctor import CHECKS
from mage_envs.cli.program import main


def line(part):
    report = [(name.strip(), finding) for check in CHECKS for name, finding in check()]
    findings = [finding for name, finding in report if name.startswith(part)]
    assert len(findings) == 1, report
    return findings[0]


def test_without_data(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.delenv("BOXOBAN_LEVELS", raising=False)
    assert "none: ALFWORLD_DATA is not set" in line("official data")
    assert "none: BOXOBAN_LEVELS is not set" in line("Boxoban levels")
    assert "3600 games of each size" in line("generated, train")
    assert "textworld 1.7.0" in line("engine")


def test_with_data(monkeypatch, tmp_path):
    write_dataset(tmp_path, size="tiny", games_per_task=1, splits=("train",))
    levels = tmp_path / "levels"
    levels.mkdir()
    (levels / "000.txt").write_text("")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setenv("BOXOBAN_LEVELS", str(levels))
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "cache"))
    assert "6 playable games of 6: 1 look_at_obj_in_light" in line("official, train")
    assert "no such folder" in line("official, valid_unseen")
    assert "1 level files" in line("Boxoban levels")
    assert "1 files" in line("cache")


def test_with_paths_that_do_not_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("BOXOBAN_LEVELS", str(tmp_path / "nothing"))
    assert "which is no folder" in line("official data")
    assert "which holds no level file" in line("Boxoban levels")


def test_the_command_prints_the_findings_as_text_and_as_json(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["part"], row["finding"]) for row in rows] == [
        tuple(part.strip() for part in row.strip().split("  ", 1)) for row in text.splitlines()
    ]
