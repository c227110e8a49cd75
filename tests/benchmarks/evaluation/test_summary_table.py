"""Tables, files and the figure."""

from __future__ import annotations

import csv
import dataclasses
import re
import subprocess
import sys

from mage_envs.benchmarks import adaptation_figure, save, summarise, table
from mage_envs.benchmarks.evaluation.tables.summary_table import load
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from tests.benchmarks.results import make_trajectory


def kuhn_summary():
    rows = [
        make_trajectory([value, 0, value + 1], opponent=name, seed=seed, seats=[(s,), (1 - s,), (s,)])
        for name in ("kuhn/conservative", "kuhn/aggressive")
        for seed, value in enumerate((-2, -1, 1, 1))
        for s in (0, 1)
    ]
    return summarise(rows, KuhnPoker(), agent="tester", panel="by hand")


def test_table_of_chips():
    summary = kuhn_summary()
    text = table(summary, [dataclasses.replace(summary.overall, opponent="no memory")])
    lines = text.splitlines()
    assert lines[0] == "tester in mage/KuhnPoker-Meta-v0 (by hand)"
    assert lines[3].split("  ")[0] == "opponent"
    first_line = next(line for line in lines if line.startswith("kuhn/conservative"))
    # four clusters: s = 1.5, s / 2 = 0.75, and 3.18245 times that to either side
    assert "-0.250 [-2.637, 2.137]" in first_line
    assert "+1.000 [1.000, 1.000]" in first_line
    cells = re.split(r"\s{2,}", first_line)
    assert cells[-1] == "0.250"
    assert [line.split("  ")[0] for line in lines[5:9]] == ["kuhn/conservative", "kuhn/aggressive", "all", "no memory"]
    assert len({len(line) for line in lines[5:9]}) == 1
    assert all(len(line) < 180 for line in lines)
    assert "pass@3" in text
    assert "-0.000" not in text


def test_table_of_wins_and_of_unknown_values():
    rows = [make_trajectory([1, 0], opponent="mcts:10", seed=i) for i in range(4)]
    text = table(summarise(rows, TicTacToe()))
    assert "Success rate with 95% intervals" in text
    assert text.count("n/a") == 2  # blind, knows the opponent
    assert "50.0%" in text  # draws
    assert "all" not in [line.split(" ")[0] for line in text.splitlines()]


def test_a_meta_episode_of_one_and_rows_without_results():
    rows = [
        make_trajectory([1], opponent="cfr", failure="opponent: x"),
        make_trajectory([1], opponent="kuhn/rock", seed=3),
    ]
    text = table(summarise(rows, KuhnPoker()))
    assert "gain" not in text
    assert next(line for line in text.splitlines() if line.startswith("cfr")).count("n/a") == 3


def test_table_where_meta_episodes_stop_with_their_first_success():
    rows = [
        make_trajectory([1], planned=3, seed=0),
        make_trajectory([-2, -1, 2], seed=1),
        make_trajectory([-1, -1, -1], seed=2),
    ]
    lines = table(summarise(rows, KuhnPoker())).splitlines()
    solved = lines.index(next(line for line in lines if line.startswith("Solved by episode k (pass@k), of all")))
    assert lines[solved + 1].split() == [
        "opponent",
        "pass@1",
        "pass@2",
        "pass@3",
        "n",
        "invalid",
        "cut",
        "overflow",
        "no",
        "text",
        "failed",
    ]
    assert re.findall(r"0\.\d{3} \[", lines[solved + 3]) == ["0.333 [", "0.333 [", "0.667 ["]
    heading = next(line for line in lines if "among those alone who had not succeeded before" in line)
    row = lines[lines.index(heading) + 3]
    assert re.findall(r" of (\d)", row) == ["3", "2", "2"]
    assert "gain" not in "\n".join(lines)
    assert "knows the opponent" not in "\n".join(lines)


def test_files(tmp_path):
    summary = kuhn_summary()
    paths = save(tmp_path / "new" / "folder", summary)
    assert [path.name for path in paths] == ["summary.json", "scores.csv", "adaptation.png"]
    assert load(paths[0].parent) == summary
    lines = list(csv.DictReader(paths[1].read_text().splitlines()))
    assert len(lines) == 3 * (3 * 2 + 3 + 4)
    line = next(
        x for x in lines if (x["opponent"], x["episode"], x["measure"]) == ("kuhn/conservative", "3", "chips per hand")
    )
    assert (float(line["mean"]), int(line["n"]), round(float(line["knows_the_opponent"]), 6)) == (0.75, 8, 0.25)
    assert paths[2].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not list((tmp_path / "new" / "folder").glob("*.partial"))


def test_figures_of_all_shapes(tmp_path):
    summary = kuhn_summary()
    curve = [(0.0, -0.1), (10.0, 0.1)]
    floors = (dataclasses.replace(summary.overall, opponent="random"),)
    adaptation_figure(tmp_path / "a.png", dataclasses.replace(summary, floors=floors), curve)
    adaptation_figure(tmp_path / "b.png", dataclasses.replace(summary, rows=summary.rows[:1]))
    many = dataclasses.replace(summary, rows=summary.rows * 4)
    adaptation_figure(tmp_path / "c.png", many, curve)
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())


def test_importing_is_light():
    names = ("cli.program", "benchmarks.commands.eval", "benchmarks.evaluation.suites")
    modules = ", ".join(f"mage_envs.{name}" for name in names)
    script = f"import sys, {modules}; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    panels = ("mage_envs.games.alfworld.game", "mage_envs.games.webshop.game")
    for heavy in ("torch", "transformers", "trl", "matplotlib", "pyspiel", *panels):
        assert f"'{heavy}'" not in loaded
