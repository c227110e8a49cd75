"""`mage compare` on runs that were played."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from mage_envs.benchmarks.comparison.paired_runs import COLUMNS, compare, rank_runs
from mage_envs.benchmarks.evaluation.scoring.call_stats import as_losses
from mage_envs.benchmarks.evaluation.scoring.paired import holm
from mage_envs.benchmarks.evaluation.scoring.scores import per_hand
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from tests.benchmarks.results import make_trajectory

PANEL = ["--env", "mage/KuhnPoker-Meta-v0", "--rows", "4", "--episodes", "2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, words in {
        "nash": ["policy:kuhn/nash", *PANEL, "--memory", "react"],
        "random": ["scripted:random", *PANEL, "--memory", "reflexion"],
        "stopped": ["scripted:random", *PANEL, "--game-option", "protocol=paper"],
        "seven": ["scripted:random", *PANEL[:4], "--episodes", "7"],
    }.items():
        assert main(["eval", *words, "--out", str(folder / name)]) == 0
    return folder


def test_runs_are_paired_by_task(runs, capsys):
    assert main(["compare", str(runs / "nash"), str(runs / "random")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("policy:kuhn/nash+react  less  scripted:random+reflexion\n")
    assert "24 pairs of meta-episodes in 4 clusters" in out
    assert max(map(len, out.splitlines())) <= 80
    [comparison] = compare([runs / "nash", runs / "random"])
    assert [row.measure for row in comparison.rows] == ["episode 1", "episode 2", "gain", "pass@1", "pass@2"]
    nash_episodes, random_episodes = (Records(runs / name).trajectories() for name in ("nash", "random"))
    names = ("kuhn/conservative", "kuhn/aggressive", "kuhn/intermediate")
    means = [
        np.mean(
            [
                per_hand(a.episodes[1]) - per_hand(b.episodes[1])
                for a, b in zip(nash_episodes, random_episodes, strict=True)
                if a.opponent == name
            ]
        )
        for name in names
    ]
    assert comparison.rows[1].mean == pytest.approx(float(np.dot(means, [0.3, 0.3, 0.4])))
    assert main(["compare", str(runs / "nash"), str(runs / "random"), str(runs / "nash"), "--format", "tsv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines(), delimiter="\t"))
    assert (tuple(rows[0]), len(rows)) == (COLUMNS, 11)
    assert {row[4] for row in rows[6:]} == {"0.0"}


def test_holm_covers_every_test_of_all_comparisons(runs, capsys):
    names = ["nash", "random", "nash", "random"]
    comparisons = compare([runs / name for name in names])
    rows = [row for comparison in comparisons for row in comparison.rows]
    assert len(rows) == 15
    tests = [p for row in rows for p in (row.p, row.mcnemar) if p is not None]
    adjusted_values = [p for row in rows for p in (row.adjusted, row.mcnemar_adjusted) if p is not None]
    assert len(tests) == 21
    assert adjusted_values == holm(tests)
    [pair] = compare([runs / "nash", runs / "random"])
    assert min(row.p for row in pair.rows) < 0.5
    assert min(row.adjusted for row in rows) > min(row.adjusted for row in pair.rows), "more tests, larger values"
    assert main(["compare", *(str(runs / name) for name in names)]) == 0
    out = capsys.readouterr().out
    assert out.count("adjusted for all 21 tests in all tables printed here") == 3
    assert max(map(len, out.splitlines())) <= 80


def test_json_has_the_values_of_the_comparison(runs, capsys):
    folders = [runs / "nash", runs / "random"]
    assert main(["compare", *map(str, folders), "--json"]) == 0
    [read] = json.loads(capsys.readouterr().out)
    [comparison] = compare(folders)
    assert read == json.loads(json.dumps(asdict(comparison)))
    assert [row["mean"] for row in read["rows"]] == [row.mean for row in comparison.rows]


def test_ranks_are_intervals_from_paired_tests(tmp_path):
    """In runs that share tasks, the bet-always policy is far behind the others, which do not differ significantly."""
    common = ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/rock", "--rows", "24", "--episodes", "2"]
    agents = ["policy:best-response-to:kuhn/rock", "policy:kuhn/nash", "policy:kuhn/nash:0.2", "policy:uniform"]
    for index, agent in enumerate(agents):
        assert main(["eval", agent, *common, "--no-baselines", "--out", str(tmp_path / str(index))]) == 0
    folders = [tmp_path / str(index) for index in range(4)]
    ranks = rank_runs(folders)
    assert rank_runs(folders[:1]) == [(1, 1)]
    assert rank_runs([folders[0], folders[0]]) == [(1, 2), (1, 2)], "the same run twice"
    means = [np.mean([t.episodes[-1].value for t in Records(folder).trajectories()]) for folder in folders]
    for (best, worst), mean in zip(ranks, means, strict=True):
        assert 1 <= best <= 1 + sum(other_mean > mean for other_mean in means)
        assert 4 - sum(other_mean < mean for other_mean in means) <= worst <= 4
    assert (1, 4) not in {ranks[0], ranks[3]}, ranks


def test_of_many_episodes_five_are_shown(runs):
    [comparison] = compare([runs / "seven", runs / "seven"])
    episodes = ["episode 1", "episode 2", "episode 3", "episode 5", "episode 7", "gain"]
    assert [row.measure for row in comparison.rows][:6] == episodes
    [wide] = compare([runs / "seven", runs / "seven"], wide=True)
    assert len(wide.rows) == 7 + 1 + 7


def test_after_early_stop_only_pass_at_k_is_compared(runs):
    [comparison] = compare([runs / "stopped", runs / "stopped"])
    assert [row.measure for row in comparison.rows] == ["pass@1", "pass@2"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nash"], "requires two runs or more"),
        (["nash", "stopped"], "are not compared: options.deal is"),
        (["nash", "seven"], "options.num_episodes is 2 and 7. Only agents and memory, context, style may differ"),
        (["nash", "nowhere"], "holds no run"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs, capsys, names, message):
    assert main(["compare", *(str(runs / name) for name in names)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_failures_are_counted_as_losses_beside(runs, tmp_path):
    records = Records(runs / "random")
    writer = Writer(tmp_path / "broken", {**records.about, "started": "now"}, resume=False)
    for index, trajectory in enumerate(records.trajectories()):
        writer.add(index, replace(trajectory, failure="opponent: gone") if index == 3 else trajectory)
    writer.close()
    [comparison] = compare([tmp_path / "broken", runs / "random"])
    assert (comparison.pairs, comparison.failed) == (23, 1)
    assert {row.mean for row in comparison.rows} == {0.0}
    lost = {row.measure: row for row in comparison.with_losses}
    assert lost["pass@2"].n == 24
    record = records.trajectories()[3]
    share = {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}[record.opponent] / 8
    assert lost["episode 2"].mean == pytest.approx(share * (-2 - per_hand(record.episodes[1])))
    assert lost["pass@2"].only == (0, int(any(e.success for e in record.episodes)))


def test_a_failure_as_a_loss_is_the_worst_of_the_game():
    complete = make_trajectory([1, -1, 2], seats=[(0,), (1,), (0,)])
    broken = replace(make_trajectory([]), failure="hang: late", num_episodes=3)
    lost = as_losses([complete, broken], KuhnPoker())[1]
    assert [(e.value, e.success, e.timeout, e.seats) for e in lost.episodes] == [
        (-2, False, True, (0,)),
        (-2, False, True, (1,)),
        (-2, False, True, (0,)),
    ]
    with pytest.raises(ValueError, match="Every meta-episode failed"):
        as_losses([broken], KuhnPoker())
