"""`mage suite`: rows from a file, runs below one folder, and the table beside the paper's figures."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.scoring.estimates import quantile
from mage_envs.benchmarks.evaluation.suites.paper import SUITES, setting_for
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow, read_rows
from mage_envs.benchmarks.evaluation.suites.suite_table import FIELDS, SuiteCell, suite_tables, text_blocks
from mage_envs.benchmarks.evaluation.tables.markup import latex
from mage_envs.benchmarks.evaluation.tables.summary_table import load
from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.benchmarks.report.runs import folders_of
from mage_envs.benchmarks.runs.suite_folder import find_reported, plan_of
from mage_envs.benchmarks.suites.planning import plan_runs, short_names
from mage_envs.cli.program import main
from mage_envs.cli.tables import as_text
from tests.interruptions import run_in_fork

ROWS = Path(__file__).parents[2] / "data" / "rows.yaml"
SMALL = """
- {name: react, agent: {kuhn-train: "scripted:random"}, memory: react}
- {name: nash, agent: {kuhn-train: "policy:kuhn/nash"}, memory: reflexion, env_kwargs: {reveal: always}}
- {name: none, agent: {kuhn-train: "policy:kuhn/nash"}, control: none}
- name: others
  agent: {kuhn-train: "policy:kuhn/nash"}
  memory: reflexion
  env_kwargs: {reveal: always}
  control: other
  from: nash
"""
PLAYED = ("react", "nash", "none", "others")


def suite(folder, *options):
    return main(["eval", str(folder / "c.yaml"), "--suite", "demo", "--quick", "--out", str(folder / "s"), *options])


@pytest.fixture(scope="module")
def suite_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "c.yaml").write_text(SMALL)
    assert suite(folder) == 0
    return folder


def test_json_has_the_rows_of_the_tabbed_table(suite_folder, capsys):
    assert suite(suite_folder, "--resume", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert tuple(rows[0]) == FIELDS
    with (suite_folder / "s" / "table.tsv").open() as file:
        tabbed = list(csv.DictReader(file, delimiter="\t"))
    # The exact text of a number is that of the tabbed table, so no digit is lost.
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows] == tabbed


RELEASED = {"protocol": "paper", "num_episodes": 10, "style": "paper"}


@pytest.mark.parametrize(
    ("panel", "changed"),
    [
        ("paper-kuhn", {}),
        ("paper-kuhn-128", {"memory": "history", "context": "conversation"}),
        ("paper-kuhn-16", {}),
        ("paper-kuhn", {"protocol": "adaptive"}),
        ("paper-kuhn", {"num_episodes": 3}),
        ("paper-kuhn", {"style": "plain"}),
        ("paper-kuhn", {"reveal": "always"}),
        ("paper-kuhn-cfr", {}),
        ("kuhn-paper-128", RELEASED),
        ("paper-sokoban-2box", {}),
    ],
)
def test_the_papers_figures_stand_beside_its_own_setting_alone(suite_folder, panel, changed):
    summary = load(next((suite_folder / "s").rglob("nash/summary.json")).parent)
    reported = find_reported(setting_for(panel, **changed))
    same = (
        panel.startswith("paper-kuhn")
        and not panel.endswith(("16", "cfr"))
        and not set(changed) & {*RELEASED, "reveal"}
    )
    assert reported == ("paper-kuhn" if same else None)
    cell = SuiteCell(panel="kuhn", protocol="paper", episodes=10, row="nash", summary=summary, reported=reported)
    panels = [("paper-kuhn", "kuhn"), ("paper-tictactoe-mcts100", "tictactoe")]
    text = as_text(text_blocks(suite_tables("paper-table1", [cell], ["nash"], panels)))
    ours, title, theirs = text.partition("As reported in arXiv 2603.03680 (K = 10), not measured here:")
    assert bool(title) == same
    assert "MAGE" not in ours
    if title:
        assert "nash" not in theirs
        # Tic-Tac-Toe was not played, so the paper's figures of it are not shown either.
        assert next(line for line in theirs.splitlines() if line.startswith("ReAct")).split() == ["ReAct", "65", "(4)"]


def test_each_row_is_a_run(suite_folder, capsys):
    out = (suite_folder / "s" / "table.txt").read_text()
    assert max(map(len, out.splitlines())) <= 80
    ours = out
    assert "As reported" not in out, "the paper did not measure at K = 3 under the protocol adaptive"
    three, rows = len(PLAYED) * 3, 3  # rows in three blocks, exact values in one of them
    assert ours.count("n/a") == three + rows  # the panel without runs
    assert "= knows the opponent" in ours
    runs = {path.parent.name: Records(path.parent) for path in (suite_folder / "s").rglob("run.json")}
    assert {name: len(run.lines) for name, run in runs.items()} == dict.fromkeys(PLAYED, 16)
    memories = [runs[name].about["setting"]["options"]["memory"] for name in PLAYED]
    assert memories[:3] == ["react", "reflexion", "none/reflection"]
    assert memories[3].startswith("other@")
    assert memories[3].endswith("/reflexion")
    rows = list(csv.DictReader((suite_folder / "s" / "table.tsv").read_text().splitlines(), delimiter="\t"))
    assert [(row["panel"], row["row"], row["n"]) for row in rows] == [("kuhn-train", name, "16") for name in PLAYED]
    for row in rows:
        assert float(row["blind"]) == pytest.approx(0.121, abs=5e-4)
        assert 0.12 < float(row["best_learner"]) < float(row["knows_the_opponent"])
        assert float(row["knows_the_opponent"]) == pytest.approx(0.273, abs=5e-4)
        assert float(row["gain_low"]) <= float(row["last"]) - float(row["first"]) <= float(row["gain_high"])
    assert "<!doctype html>" in (suite_folder / "s" / "report.html").read_text()
    assert [folder.name for folder in folders_of(suite_folder / "s")] == list(PLAYED)
    assert main(["verify", str(suite_folder / "s")]) == 0
    assert main(["verify", "--replay", str(suite_folder / "s"), "--sample", "2"]) == 0
    assert capsys.readouterr().out.count("all as recorded") == len(PLAYED)
    assert main(["verify", str(suite_folder / "s"), "--json"]) == 0
    valid = json.loads(capsys.readouterr().out)
    assert [(run["problems"], run["meta_episodes"], run["root"]) for run in valid] == [
        ([], run["planned"], Records(Path(run["folder"])).root()["root"]) for run in valid
    ]
    assert main(["verify", "--replay", str(suite_folder / "s"), "--sample", "2", "--json"]) == 0
    replays = json.loads(capsys.readouterr().out)
    assert [run["folder"] for run in replays] == [run["folder"] for run in valid]
    assert {(run["meta_episodes"], run["damaged_lines"], *run["differences"]) for run in replays} == {(2, 0)}
    assert main(["compare", str(suite_folder / "s/kuhn-train/nash"), str(suite_folder / "s/kuhn-train/react")]) == 2
    assert "options.game.reveal is" in capsys.readouterr().err


RUNS = """
- {name: seed-0, agent: {kuhn-train: "scripted:first"}, model: words}
- {name: other, agent: {kuhn-train: "scripted:random"}}
- {name: seed-1, agent: {kuhn-train: "scripted:last"}, model: words}
- {name: seed-2, agent: {kuhn-train: "scripted:last"}, model: words}
"""


def test_rows_of_one_model_share_a_line_with_intervals_across_runs(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(RUNS)
    assert suite(tmp_path, "--format", "markdown") == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [row[0] for row in rows[:4]] == ["", "---", "words", "other"]
    with (tmp_path / "s" / "table.tsv").open() as file:
        rows_by_name = {row["row"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert list(rows_by_name) == ["seed-0", "other", "seed-1", "seed-2", "words"]
    lasts = [float(rows_by_name[name]["last"]) for name in ("seed-0", "seed-1", "seed-2")]
    mean, half = np.mean(lasts), quantile(2) * np.std(lasts, ddof=1) / 3**0.5
    assert lasts[0] != lasts[1] == lasts[2]
    row = rows_by_name["words"]
    assert (float(row["last"]), row["n"], row["agent"]) == (pytest.approx(mean), "48", "3 runs of words")
    assert float(row["last_low"]) == pytest.approx(mean - half)
    assert float(row["last_high"]) == pytest.approx(mean + half)
    assert float(row["knows_the_opponent"]) == pytest.approx(0.273, abs=5e-4)
    assert f"{mean:+.2f}±{half:.2f}" in [row[1] for row in rows if row[0] == "words"]
    notes = [line for line in lines if line.startswith("* words")]
    assert notes[0] == "* words: mean of 3 runs of the same tasks, and intervals across these runs"
    assert notes[1].startswith("* words, kuhn-train: 1 of its runs repeat the scores of another one")
    assert "16 meta-episodes a panel" in lines[0]
    assert suite(tmp_path, "--format", "latex", "--resume") == 0
    text = capsys.readouterr().out
    assert text.count(r"\begin{tabular}{lrr}") == text.count(r"\bottomrule") == 3
    assert f"words & {mean:+.2f}$\\pm${half:.2f} & n/a \\\\" in text


def test_names_are_escaped_in_latex():
    text = latex([["", "a_b"], ["50% & \\x{y}~^$#", "48 [43,54]"]], "c_d")
    assert r"\caption{c\_d}" in text
    assert r"50\% \& \textbackslash{}x\{y\}\textasciitilde{}\textasciicircum{}\$\# & 48 {[}43,54] \\" in text


def test_a_dry_run_prints_what_to_expect_and_plays_nothing(tmp_path, capsys):
    model = "llm:m@http://127.0.0.1:9/v1,max_tokens=50"
    (tmp_path / "c.yaml").write_text(f'- {{name: m, agent: "{model}"}}\n- {{name: r, agent: "scripted:last"}}\n')
    words = [
        "eval",
        str(tmp_path / "c.yaml"),
        "--suite",
        "demo",
        "--episodes",
        "3",
        "--game-option",
        "protocol=adaptive",
    ]
    assert main([*words, "--dry-run", "--price", "0,1000000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 1 + 4 + 1 + 1
    match = re.fullmatch(
        r"kuhn-train/m, llm:m,max_tokens=50: 512 meta-episodes, with 95% intervals: ([\d,]+) \[.*\] calls, "
        r"([\d,]+) \[.*\] prompt tokens, ([\d,]+) \[.*\] reply tokens, n/a hours, price ([\d,]+)\.00 \[.*\]",
        lines[2],
    )
    calls, prompts, replies, price = (int(text.replace(",", "")) for text in match.groups())
    # Three episodes with at least one play each, and two reflections.
    assert 5 * 512 <= calls <= prompts
    assert replies == price == 50 * calls
    assert lines[3] == "kuhn-train/r, scripted:last: 512 meta-episodes, no model"
    assert lines[-1].startswith("Sum of the means, without an interval: ")
    assert list(tmp_path.iterdir()) == [tmp_path / "c.yaml"]
    assert main(words) == 2
    assert "Name the folder for the runs with --out" in capsys.readouterr().err


def test_the_plan_of_a_suite_has_no_address(tmp_path):
    cells = []
    for port in (1, 2):
        text = f'- {{name: m, agent: {{kuhn-train: "llm:m@http://h:{port}/v1,concurrency={port}"}}}}'
        (tmp_path / "c.yaml").write_text(text)
        rows = read_rows(tmp_path / "c.yaml", ("kuhn-train",))
        cells.append(plan_of("demo", False, rows, []))
    assert cells[0] == cells[1]
    assert cells[0]["rows"][0]["agent"] == {"kuhn-train": "llm:m"}


def run_until_killed(folder, count):
    """Plays a suite that ends by SIGKILL after so many meta-episodes; shards have four lines."""
    record_store.SHARD, add = 4, Writer.add

    def count_episode(writer, index, trajectory):
        nonlocal count
        add(writer, index, trajectory)
        count -= 1
        if not count:
            os.kill(os.getpid(), signal.SIGKILL)

    Writer.add = count_episode
    suite(folder)


def test_a_killed_suite_resumes_to_the_same_root(suite_folder, tmp_path, capsys):
    suite_record = json.loads((suite_folder / "s" / "suite.json").read_text())
    (tmp_path / "c.yaml").write_text(SMALL)
    assert run_in_fork(partial(run_until_killed, tmp_path, 16 + 11)) == -signal.SIGKILL
    num_stored = {path.parent.name: len(Records(path.parent).lines) for path in (tmp_path / "s").rglob("run.json")}
    assert num_stored == {"react": 16, "nash": 8}
    (tmp_path / "s/kuhn-train/react/episodes/00002.jsonl.gz").unlink()
    capsys.readouterr()
    with pytest.raises(SystemExit, match="1"):
        main(["verify", str(tmp_path / "s")])
    out = capsys.readouterr().out
    assert "suite.json: there is no run kuhn-train/others" in out
    assert "suite.json: it is not complete; resume it with mage eval … --suite … --resume" in out
    assert suite(tmp_path) == 2
    assert "already holds a suite. Continue it with --resume" in capsys.readouterr().err
    assert suite(tmp_path, "--resume") == 0
    assert json.loads((tmp_path / "s" / "suite.json").read_text()) == suite_record
    suite_record["runs"][0]["root"] = "0" * 64
    (tmp_path / "s" / "suite.json").write_text(json.dumps(suite_record))
    with pytest.raises(SystemExit, match="1"):
        main(["verify", str(tmp_path / "s")])
    assert "suite.json: the root of kuhn-train/react is 000000000000" in capsys.readouterr().out
    (tmp_path / "c.yaml").write_text(SMALL.replace("memory: react", "memory: none"))
    assert suite(tmp_path, "--resume") == 2
    assert "holds another suite: rows, runs differ" in capsys.readouterr().err


def test_a_suite_has_its_panels_at_two_lengths_under_two_protocols():
    rows = [SuiteRow("random", "scripted:random", "none")]
    assert [cell.folder for cell in plan_runs(SUITES["demo"], rows, 128, ["paper"], [10])] == [
        "kuhn-train-k10-paper/random",
        "kuhn-heldout-k10-paper/random",
    ]
    cells = plan_runs(SUITES["heldout"], rows, size=128)
    assert len(cells) == 4 * 2 * 2
    folders = [cell.folder for cell in cells]
    assert folders[0] == "kuhn/random"
    assert {"kuhn-k10/random", "kuhn-paper/random", "leduc-k10-paper/random"} <= set(folders)
    assert len(set(folders)) == len(folders)
    assert {cell.setting.resolved["num_episodes"] for cell in cells} == {3, 10}
    for suite_of in SUITES.values():
        assert len(set(short_names(suite_of).values())) == len(suite_of.panels)
    assert list(short_names(SUITES["paper-ood"]).values())[:4] == [
        "tictactoe",
        "kuhn-cfr",
        "kuhn-cfr-second",
        "sokoban-1box",
    ]
    # The paper's suites are played as it evaluates.
    folders = [cell.folder for cell in plan_runs(SUITES["paper-table1"], rows)]
    assert folders[:2] == ["kuhn-k10-paper/random", "tictactoe-k10-paper/random"]


def test_the_file_of_the_docs_is_read():
    rows = read_rows(ROWS, ("kuhn",))
    assert [row.memory for row in rows] == ["react", "reflexion:window=2", "amem", "memento"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {name: a, agnt: x}", "row 1: unknown key 'agnt'. Did you mean 'agent'?"),
        ("- {name: a, agent: x}\n- {name: a, agent: y}", "has two rows named 'a'"),
        ("- {name: a/b, agent: x}", "row 1: name must consist of letters"),
        ("- {agent: x}", "name must consist of letters"),
        ("- {name: a}", "agent must name an agent"),
        ("- {name: a, agent: {kuhn-tran: x}}", "unknown panel 'kuhn-tran'. Did you mean 'kuhn-train'?"),
        ("- {name: a, agent: x, env_kwargs: {protocol: paper}}", "env_kwargs must not set protocol"),
        ("- {name: a, agent: x, env_kwargs: 3}", "env_kwargs must be a mapping"),
        ("- {name: a, agent: x, memory: [b]}", "memory must be a name"),
        ("- {name: a, agent: x, sampling: {top_g: 1}}", "there is no option 'top_g'. Did you mean 'top_"),
        ("- {name: a, agent: x, sampling: {top_p: 2}}", "top_p=2 is out of range"),
        ("- {name: a, agent: 'scripted:random', sampling: paper}", "is not a model, so sampling has no effect"),
        ("- {name: a, agent: 'scripted:rndom'}", "Unknown agent 'scripted:rndom'"),
        ("- {name: a, agent: 'scripted:random', memory: amm}", "memory='amm' is unknown; Did you mean 'amem'?"),
        ("- {name: a, agent: 'scripted:random', memory: 'amem:encoder=hsh'}", "Did you mean 'hash'?"),
        ("- {name: a, agent: 'scripted:random', control: frosen}", "unknown control 'frosen'. Did you mean 'frozen'?"),
        ("- {name: a, agent: 'scripted:random', control: other}", "control other or same requires from"),
        ("- {name: a, agent: 'scripted:random', from: a}", "control other or same requires from"),
        ("- {name: a, agent: x, control: other, from: b}", "a is from 'b', which must be a row above it."),
        (
            "- {name: a, agent: {kuhn-train: 'scripted:last'}}\n"
            "- {name: b, agent: 'scripted:last', control: other, from: a}",
            "Row b copies from a, which does not play kuhn-heldout.",
        ),
        ("- {name: a, agent: 'scripted:last', model: [b]}", "model must be a name"),
        ("- {name: a, agent: 'scripted:last', model: a}", "model 'a' of a is the name of a row"),
        (
            "- {name: a, agent: x, model: m}\n- {name: b, agent: x, model: m, memory: none}",
            "a and b are runs of one model, but their memory differ",
        ),
        ("name: a", "must be a list of rows"),
        ("- [", "is not valid YAML"),
    ],
)
def test_bad_rows_are_one_line_and_nothing_is_written(tmp_path, capsys, text, message):
    (tmp_path / "c.yaml").write_text(text)
    assert suite(tmp_path) == 2
    error = capsys.readouterr().err
    assert error.startswith("mage: ")
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "s").exists()


def test_an_unknown_suite_suggests_the_nearest(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(SMALL)
    words = ["eval", str(tmp_path / "c.yaml"), "--suite", "paper-tabel1", "--out", str(tmp_path / "s")]
    assert main(words) == 2
    assert "Did you mean 'paper-table1'?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_quick_suite_of_the_papers_table(tmp_path, capsys):
    words = ["eval", str(ROWS), "--suite", "paper-table1", "--quick", "--out", str(tmp_path / "t1")]
    assert main(words) == 0
    names = {row.name for row in read_rows(ROWS, tuple(short_names(SUITES["paper-table1"]).values()))}
    measured = [line for line in capsys.readouterr().out.splitlines() if line.partition("  ")[0] in names]
    assert len(measured) >= len(names)
    assert not [line for line in measured if "n/a" in line]  # floors are of games with tasks alone
    assert main(["verify", str(tmp_path / "t1")]) == 0
