"""Exports of records: tables of calls, ATIF, leaderboards; and the commands of docs/results-schema.md."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from atif import Trajectory
from pyarrow import parquet

from mage_envs.benchmarks.commands.export import COLUMNS, rows
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.records.schema import LineRecord
from mage_envs.cli.program import main
from mage_envs.wrappers.rollout.line_schema import CallRecord, problems_of

ROOT = Path(__file__).parents[3]
EVAL = ["--env", "mage/KuhnPoker-Meta-v0", "--rows", "2", "--episodes", "2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in ("random", "last"):
        assert main(["eval", f"scripted:{name}", *EVAL, "--out", str(folder / name)]) == 0
    assert main(["eval", "scripted:last", *EVAL, "--memory", "none", "--out", str(folder / "none")]) == 0
    return folder


def test_tables_have_one_row_per_call(runs, tmp_path):
    records = Records(runs / "random")
    calls = [call for _, line in sorted(records.lines.items()) for call in line["calls"]]
    assert main(["export", str(runs / "random"), "--to", "csv", "--out", str(tmp_path / "a.csv")]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert [row["reply"] for row in rows] == [call["reply"] for call in calls]
    assert {int(row["seed"]) for row in rows} == {line["task"]["seed"] for line in records.lines.values()}
    assert main(["export", str(runs / "random"), "--to", "parquet", "--out", str(tmp_path / "a.parquet")]) == 0
    table_rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["prompt"] for row in table_rows] == [call["messages"][0]["content"] for call in calls]
    assert sum(row["reward"] for row in table_rows) == sum(call["reward"] for call in calls)


def test_atif_is_valid_by_its_own_package(runs, tmp_path):
    assert main(["export", str(runs / "random"), "--to", "atif", "--out", str(tmp_path / "a.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    records = Records(runs / "random")
    assert len(lines) == len(records.lines) == 12
    for line, (_, record) in zip(lines, sorted(records.lines.items()), strict=True):
        trajectory = Trajectory.model_validate(line)
        assert len(trajectory.steps) == 2 * len(record["calls"])
        assert trajectory.steps[1].message == record["calls"][0]["reply"]


def test_valid_replies_are_examples_for_trl(runs, tmp_path):
    """TRL reads them as conversational prompts with completions, of which it learns the completion alone."""
    from datasets import Dataset
    from trl import is_conversational

    words = ["eval", "scripted:random", *EVAL, "--memory", "reflection", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert main(["export", str(tmp_path / "run"), "--to", "sft", "--out", str(tmp_path / "sft.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    calls = [call for line in Records(tmp_path / "run").lines.values() for call in line["calls"]]
    play_calls = [call for call in calls if call["kind"] == "play"]
    assert 0 < len(play_calls) < len(calls)
    assert sorted(line["completion"][0]["content"] for line in lines) == sorted(call["reply"] for call in play_calls)
    assert is_conversational(Dataset.from_list(lines)[0])
    assert {message["role"] for line in lines for message in line["prompt"]} == {"user"}
    assert "No remark." not in {line["completion"][0]["content"] for line in lines}


def test_a_leaderboard_has_validated_runs_of_one_setting(runs, tmp_path, capsys):
    pair = [str(runs / "random"), str(runs / "last")]
    pages = {kind: tmp_path / f"board.{kind}" for kind in ("md", "json", "csv")}
    assert main(["compare", *pair, "--page", str(pages["md"])]) == 0
    out = pages["md"].read_text()
    assert "digests, 12 replayed, ceilings" in out
    assert len([line for line in out.splitlines() if "| scripted:" in line]) == 2
    assert "\n| rank | agent |" in out
    assert main(["compare", *pair, "--page", str(pages["json"])]) == 0
    entries = json.loads(pages["json"].read_text())
    assert [entry["agent"] for entry in entries] == ["scripted:random", "scripted:last"]
    assert all(1 <= entry["rank"][0] <= entry["rank"][1] <= 2 for entry in entries)
    assert entries[0]["root"] == Records(runs / "random").root()["root"]
    assert main(["compare", *pair, "--page", str(pages["csv"])]) == 0
    assert len(list(csv.reader(pages["csv"].read_text().splitlines()))) == 3
    capsys.readouterr()
    assert main(["compare", *pair, "--page", str(tmp_path / "board.txt")]) == 2
    assert "must end in .html, .md, .csv or .json" in capsys.readouterr().err
    assert main(["compare", *pair, "--wide", "--page", str(pages["csv"])]) == 2
    assert "Remove them, or --page." in capsys.readouterr().err
    assert main(["compare", *pair, "--sample", "3"]) == 2
    assert "Add --page FILE." in capsys.readouterr().err
    # An agent chooses its memory, so that one without memory is in the same table. Other rules are another setting.
    assert main(["compare", *pair, str(runs / "none"), "--page", str(pages["csv"])]) == 0
    assert len(list(csv.reader(pages["csv"].read_text().splitlines()))) == 4
    words = ["eval", "scripted:last", *EVAL, "--game-option", "on_invalid=forfeit", "--out", str(tmp_path / "forfeit")]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["compare", *pair, str(tmp_path / "forfeit"), "--page", str(pages["csv"])]) == 2
    assert "measure different settings and are not compared" in capsys.readouterr().err
    shutil.copytree(runs / "last", tmp_path / "edited")
    root_record = json.loads((tmp_path / "edited" / "root.json").read_text())
    (tmp_path / "edited" / "root.json").write_text(json.dumps(root_record | {"count": 11}))
    assert main(["compare", str(tmp_path / "edited"), "--page", str(pages["csv"])]) == 2
    assert "edited is not valid: root.json: count is 11, and the records give 12" in capsys.readouterr().err


def test_the_schema_names_every_field_and_the_document_too():
    text = (ROOT / "docs" / "results-schema.md").read_text()
    for record in (LineRecord, CallRecord):
        assert [field for field in record.model_fields if f"`{field}`" not in text] == []
        assert list(problems_of(record, {})) != []


@pytest.mark.more
def test_the_commands_of_the_document_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "results-schema.md").read_text()
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL)[1]
    for line in block.splitlines():
        words = line.partition("#")[0].split()
        assert words[0] == "mage"
        assert main(words[1:]) == 0, line
    assert (tmp_path / "calls.csv").exists()
    assert "digests, 32 replayed, ceilings" in (tmp_path / "runs" / "a.md").read_text()


@pytest.fixture
def hub_folder(runs, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    assert main(["export", str(runs / "random"), "--to", "hub-folder", "--out", str(tmp_path / "set")]) == 0
    return tmp_path / "set"


def test_the_line_on_the_card_loads_each_table_of_the_folder(runs, hub_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(hub_folder.parent)
    [block] = re.findall(r"```python\n(.*?)```", (hub_folder / "README.md").read_text(), re.DOTALL)
    tables = {}
    for name in ("panel", "meta_episodes", "calls"):
        code, names = block.replace("FOLDER", str(hub_folder)).replace("meta_episodes", name), {}
        exec(code.replace("\nload_", "\nfound = load_"), names)
        tables[name] = names["found"].to_list()
    records = Records(runs / "random")
    lines = [line for _, line in sorted(records.lines.items())]
    tasks = [{name: value for name, value in row.items() if name != "index"} for row in tables["panel"]]
    assert [{name: task[name] for name in lines[0]["task"]} for task in tasks] == [line["task"] for line in lines]
    assert tables["calls"] == [
        row | {name: float(row[name]) for name in ("penalty", "reward", "seconds")} for row in rows(records)
    ]
    assert [row["index"] for row in tables["meta_episodes"]] == list(range(12))
    for row, line in zip(tables["meta_episodes"], lines, strict=True):
        assert row["digest"] == line["digest"]
        assert row["rewards"] == [episode["reward"] for episode in line["episodes"]]
        assert row["successes"] == [episode["success"] for episode in line["episodes"]]


def test_the_folder_contains_the_run_itself(runs, hub_folder, capsys):
    assert main(["verify", str(hub_folder / "run")]) == 0
    assert Records(hub_folder / "run").root() == Records(runs / "random").root()
    assert main(["export", str(runs / "last"), "--to", "hub-folder", "--out", str(hub_folder)]) == 0
    assert Records(hub_folder / "run").root() == Records(runs / "last").root()


def test_a_folder_with_other_files_is_refused(runs, tmp_path, capsys):
    (tmp_path / "key.txt").write_text("secret")
    assert main(["export", str(runs / "random"), "--to", "hub-folder", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path} has other files. Name an empty or new folder with --out." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["key.txt"]


def test_a_killed_run_makes_no_data_set(runs, tmp_path, capsys):
    shutil.copytree(runs / "last", tmp_path / "killed")
    (tmp_path / "killed" / "root.json").unlink()
    assert main(["export", str(tmp_path / "killed"), "--to", "hub-folder", "--out", str(tmp_path / "set")]) == 2
    assert "killed has no root.json: its run was killed. Finish it" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()
