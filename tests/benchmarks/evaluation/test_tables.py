"""Tables of 80 columns, and the scores that they show beside the means."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from mage_envs.benchmarks import Summary, named_panel, summarise
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.call_stats import CallShares, costs_of
from mage_envs.benchmarks.evaluation.scoring.exact_values import optimal_learner
from mage_envs.benchmarks.evaluation.scoring.runs import across_runs
from mage_envs.benchmarks.evaluation.scoring.scores import read_scores
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.suites.suite_table import SuiteCell, tsv
from mage_envs.benchmarks.evaluation.tables.layout import failures, kinds, means
from mage_envs.benchmarks.evaluation.tables.markup import markdown
from mage_envs.benchmarks.evaluation.tables.summary_table import csv_text, table
from mage_envs.cli.program import main
from mage_envs.cli.tables import as_text
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents.exact import best_response
from tests.benchmarks.results import make_trajectory

KUHN = KuhnPoker()
ROCK = best_response(KUHN, "kuhn/rock", 0).value


def with_calls(trajectory, kinds, reasons, tokens=None):
    """The meta-episode with calls of these kinds."""
    step = trajectory.steps[0]
    steps = [
        step._replace(kind=kind, phase="play" if kind == "play" else "reflect", invalid_reason=reason, tokens=tokens)
        for kind, reason in zip(kinds, reasons, strict=True)
    ]
    return replace(trajectory, steps=tuple(steps), seconds=(0.5,) * len(steps))


def test_answers_are_stored_by_their_requests():
    rows = [
        with_calls(make_trajectory([1, -1]), ["play", "note", "play"], [None, "length", "invalid"], (10, 2)),
        with_calls(make_trajectory([-1, 1], seed=1), ["play", "note", "link"], ["overflow", None, None], (20, 4)),
        replace(with_calls(make_trajectory([1, 1], seed=2), ["play"], ["invalid"]), failure="hang: late"),
    ]
    summary = summarise(rows, KUHN)
    row = summary.overall
    assert row.calls == {
        "play": CallShares(3, invalid=1 / 3, cut=0, overflow=1 / 3),
        "link": CallShares(1, invalid=0, cut=0, overflow=0),
        "note": CallShares(2, invalid=0, cut=1 / 2, overflow=0),
    }
    assert list(row.calls) == ["play", "link", "note"]
    assert row.costs is not None
    assert (row.costs.calls, row.costs.tokens_in, row.costs.tokens_out, row.costs.seconds) == (3, 45, 9, 1.5)
    assert row.failed_by == {"hang": 1}
    assert row.first_success == 1.5
    lines = as_text(kinds(summary)).splitlines()
    assert ["play", "3", "33.3%", "0.0%", "33.3%", "0.0%"] in [line.split() for line in lines]
    assert "Share of calls without a text in answer" not in lines
    assert as_text(failures(summary)).splitlines()[-1] == "Meta-episodes that failed, by what broke: hang 1"
    assert read_scores(Summary, json.dumps(summary.to_json()).encode()) == summary


def test_answers_without_text_are_counted_apart_in_every_table():
    rows = [with_calls(make_trajectory([1, -1]), ["play"] * 4, ["refusal", "tool_calls", "empty", "invalid"])]
    rows.append(with_calls(make_trajectory([1, -1], seed=1), ["play"] * 4, [None, "length", None, None]))
    summary = summarise(rows, KUHN)
    row = summary.overall
    assert (row.invalid, row.no_text) == (2 / 8, 3 / 8)
    assert row.calls == {"play": CallShares(8, invalid=1 / 8, cut=1 / 8, overflow=0, no_text=3 / 8)}
    lines = [line.split() for line in as_text(kinds(summary)).splitlines()]
    assert ["play", "8", "12.5%", "12.5%", "0.0%", "37.5%"] in lines
    wide = table(summary).splitlines()
    assert any(line.split()[-5:] == ["12.5%", "12.5%", "0.0%", "37.5%", "0"] for line in wide)
    warnings = [line for line in wide if line.startswith("Warning: ")]
    assert warnings == [
        "Warning: 12% of the replies held no legal action.",
        "Warning: 12% of the replies were cut at the token limit; raise max_tokens.",
        "Warning: 38% of the replies came back without a text (refusals, tool calls or empty).",
    ]
    assert 'all,,"replies, no text",0.375,,,8,,\n' in csv_text(summary)
    cell = SuiteCell(panel="p", protocol="adaptive", episodes=2, row="c", summary=summary)
    [line] = csv.DictReader(tsv([cell]).splitlines(), delimiter="\t")
    assert [line[name] for name in ("invalid", "cut", "overflow", "no_text")] == ["0.125", "0.125", "0.0", "0.375"]
    assert read_scores(Summary, json.dumps(summary.to_json()).encode()) == summary


def test_uncounted_tokens_are_unknown():
    rows = [with_calls(make_trajectory([1]), ["play", "play"], [None, None])]
    assert costs_of(rows).tokens_in is None
    assert costs_of([]) is None


def test_failures_above_one_in_a_hundred_are_also_counted_as_losses():
    rows = [make_trajectory([2, 2], seed=i) for i in range(3)] + [
        replace(make_trajectory([], seed=3), failure="crash: x", num_episodes=2)
    ]
    summary = summarise(rows, KUHN)
    lost = summary.with_losses
    assert lost is not None
    assert (summary.overall.meta_episodes, summary.overall.failures, lost.meta_episodes) == (3, 1, 4)
    assert [e.returns.estimate.mean for e in lost.episodes] == [1, 1]  # (2 + 2 + 2 - 2) / 4
    assert [e.mean for e in lost.pass_at] == [0.75, 0.75]
    assert any(line.startswith("failures as losses") for line in as_text(means(summary)).splitlines())
    failed_runs = [make_trajectory([2], seed=i) for i in range(100)] + [
        replace(make_trajectory([], seed=100), failure="x", num_episodes=1)
    ]
    assert summarise(failed_runs, KUHN).with_losses is None


def test_pass_at_k_does_not_depend_on_early_stop():
    values = [(1, -1, -1), (-1, -1, 1), (-1, -1, -1), (-1, 1, 1)]
    full_runs = [make_trajectory(episode_values, seed=seed) for seed, episode_values in enumerate(values)]
    stopped = [
        make_trajectory(
            episode_values[: episode_values.index(1) + 1] if 1 in episode_values else episode_values,
            seed=seed,
            planned=3,
        )
        for seed, episode_values in enumerate(values)
    ]
    full, short = summarise(full_runs, KUHN).overall, summarise(stopped, KUHN).overall
    assert [e.mean for e in full.pass_at] == [0.25, 0.5, 0.75]
    assert full.pass_at == short.pass_at
    assert full.first_success == short.first_success == 2


def test_the_best_learner_is_computed_for_the_panel():
    setting = Setting(named_panel("kuhn-paper-128"), "kuhn-paper-128", {})
    rows = [
        make_trajectory(
            [0.25, 0, 0.5], opponent=task.opponent, seed=task.seed, seats=[(task.seat,), (1 - task.seat,), (task.seat,)]
        )
        for task in setting.tasks
    ]
    row = summary_of("tester", setting, rows).overall
    assert row.optimal == pytest.approx((0.125, 0.189, 0.231), abs=1e-3)
    assert row.episodes[2].returns.regret == pytest.approx(row.episodes[2].returns.ceiling - 0.5)
    replayed = Setting(named_panel("kuhn-paper-128"), "kuhn-paper-128", {"deal": "replay"})
    assert summary_of("tester", replayed, rows).overall.optimal == ()
    fixed = [make_trajectory([1, 1], seats=[(0,), (0,)])]
    assert optimal_learner(KUHN, {"kuhn/rock": 1.0}, fixed) == pytest.approx((ROCK, ROCK))


def test_tables_fit_80_columns_and_lose_nothing_in_files(capsys, tmp_path):
    options = ["--env", "mage/TicTacToe-Meta-v0", "--rows", "1", "--episodes", "7"]
    options += ["--opponents", "tictactoe/pattern-1,tictactoe/pattern-2"]
    assert main(["eval", "scripted:random", *options, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "ep. 5  " in out
    assert "ep. 6" not in out
    assert main(["eval", "scripted:random", *options, "--wide"]) == 0
    assert "episode 6" in capsys.readouterr().out
    assert main(["eval", "scripted:random", *options, "--format", "tsv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines(), delimiter="\t"))
    assert rows == list(csv.reader((tmp_path / "scores.csv").read_text().splitlines()))


def test_a_row_without_results_is_not_known():
    broken = replace(make_trajectory([], opponent="cfr"), failure="opponent: x", num_episodes=2)
    summary = summarise([broken, make_trajectory([1, 1], opponent="kuhn/rock", seed=3)], KUHN)
    assert ["cfr", "n/a", "n/a"] in [line.split() for line in as_text(means(summary)).splitlines()]


def test_a_stopped_meta_episode_has_no_gain_in_its_table():
    rows = [
        make_trajectory([1], planned=3),
        make_trajectory([-2, -1, 2], seed=1),
        make_trajectory([-1, -1, -1], seed=2),
    ]
    text = as_text(means(summarise(rows, KUHN, agent="a")))
    assert "Solved by episode k" in text
    assert "gain" not in text
    assert "33 [" in text
    assert csv_text(summarise(rows, KUHN), "\t").startswith("opponent\tepisode\tmeasure\t")


def test_a_markdown_table_has_its_header_and_every_row():
    assert markdown([["agent", "level"], ["a|b", "1"], ["c", "2"]]) == (
        "| agent | level |\n| --- | --- |\n| a\\|b | 1 |\n| c | 2 |\n"
    )


def test_runs_of_one_model_are_averaged():
    """Shares are means over the runs, and counts are sums."""
    row = summarise([make_trajectory([0, 1]), make_trajectory([0, -1], seed=1)], KUHN).overall
    rows = []
    for share, lost in ((0.1, 1), (0.5, 2), (0.9, 3)):
        episodes = tuple(replace(episode, draws=share, timeouts=share / 2) for episode in row.episodes)
        rows.append(replace(row, episodes=episodes, invalid=share / 4, no_text=share / 5, failures=lost))
    together = across_runs(rows)
    assert [(episode.draws, episode.timeouts) for episode in together.episodes] == [pytest.approx((0.5, 0.25))] * 2
    assert (together.invalid, together.no_text) == pytest.approx((0.125, 0.1))
    assert (together.meta_episodes, together.failures) == (6, 6)
    assert together.episodes[1].returns.estimate.mean == pytest.approx(row.episodes[1].returns.estimate.mean)
    assert together.episodes[1].returns.estimate.n == 6
