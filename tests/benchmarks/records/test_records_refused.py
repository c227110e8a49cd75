"""Folders that a run does not go into, and that no run is read from."""

from __future__ import annotations

import json

import pytest

from mage_envs.benchmarks import make_agent
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.identity import OtherRun
from mage_envs.benchmarks.records.lines import VERSION
from mage_envs.benchmarks.records.record_store import NoRun, Records, Writer
from mage_envs.cli.program import main
from tests.benchmarks.records.test_records import EVAL, PANEL, record_run


def test_another_run_in_the_folder_is_refused_with_each_difference(tmp_path):
    folder = tmp_path / "run"
    record_run(folder, indices=(0,))
    agent = make_agent("scripted:random")
    with pytest.raises(OtherRun, match="holds a run; resume it with --resume"):
        Writer(folder, about_run(agent, setting_for(PANEL)), resume=False)
    with pytest.raises(OtherRun) as exc_info:
        Writer(folder, about_run(make_agent("scripted:last"), setting_for(PANEL, memory="none")), resume=True)
    text = str(exc_info.value)
    assert 'agent.name "scripted:random" there, "scripted:last" now' in text
    assert 'setting.options.memory "reflection" there, "none" now' in text
    assert "fingerprint" in text
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(OtherRun, match="is not empty and holds no run"):
        Writer(tmp_path / "other", about_run(agent, setting_for(PANEL)), resume=False)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]


def test_a_folder_without_a_run_and_another_schema_are_refused(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert "holds no run: run.json does not exist" in capsys.readouterr().err
    record_run(tmp_path / "run", indices=())
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    for schema in (VERSION - 1, VERSION + 1):
        (tmp_path / "run" / "run.json").write_text(json.dumps(about | {"schema": schema}))
        for command in (["verify", "--replay"], ["verify"]):
            assert main([*command, str(tmp_path / "run")]) == 2
            assert f"has schema {schema}, and this version reads {VERSION}" in capsys.readouterr().err
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(NoRun, match="is not readable as a run"):
        Records(tmp_path / "run")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([*EVAL, "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
