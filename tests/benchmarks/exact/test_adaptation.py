"""The suite `adapt`: exact scale, unbiased scores, intervals, and an independent computation from raw records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.scoring.estimates import strata_error
from mage_envs.benchmarks.evaluation.suites.adapt import ADAPT_SUITES, ALL_CELLS, CELLS, MINI
from mage_envs.benchmarks.evaluation.suites.panels import cell_panel, named_panel
from mage_envs.benchmarks.evaluation.suites.paper import named_suite, setting_for
from mage_envs.benchmarks.evaluation.suites.pool_texts import has_description
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.transcripts import pack_transcript
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.scale.adapt_figure import adapt_figure
from mage_envs.benchmarks.scale.adapt_table import AdaptResult, reference_rows
from mage_envs.benchmarks.scale.adaptation import exact_values
from mage_envs.benchmarks.scale.decisions import decisions_of
from mage_envs.benchmarks.scale.stored_suites import read_stored_suite
from mage_envs.benchmarks.suites.planning import plan_runs
from mage_envs.cli.program import main
from mage_envs.trainer.backends.play_settings import PlaySettings

GOLDEN = json.loads((Path(__file__).parent / "adapt_fingerprints.json").read_text())
"""Panel to the fingerprint of its setting with the memory `history`; a change needs a new name."""
PANELS = [panel for suite in ADAPT_SUITES for panel in named_suite(suite).panels]


def test_the_fingerprints_never_change():
    assert {panel: setting_for(panel, memory="history").fingerprint for panel in PANELS} == GOLDEN


@pytest.mark.parametrize("panel", PANELS)
def test_each_meta_episode_has_its_own_seed_and_each_opponent_is_met_equally_often(panel):
    tasks = named_panel(panel).tasks()
    assert len({task.seed for task in tasks}) == len(tasks) >= (24 if "mini" in panel else 50)
    cells = [(task.opponent, task.seat) for task in tasks]
    assert len({cells.count(cell) for cell in cells}) == 1


def test_the_seeds_of_both_suites_differ():
    seeds = [task.seed for panel in PANELS for task in named_panel(panel).tasks()]
    assert len(set(seeds)) == len(seeds)


def test_the_stored_rows_have_every_cell_that_a_reference_plays():
    for reference, row in reference_rows().items():
        cell_names = {name for name, cell in CELLS.items() if cell.agent(reference)}
        assert set(row) == cell_names | {"mean", "own", "other"}, reference


def test_every_cell_with_a_score_describes_its_pool():
    for name, cell in ALL_CELLS.items():
        assert cell.control or has_description(cell.pool), name
        if has_description(cell.pool):
            setting = setting_for(f"adapt-{name}", rules=cell.rules())
            assert setting.resolved["further"]["rules"] == cell.rules()
            assert setting.fingerprint != setting_for(f"adapt-{name}").fingerprint


def test_the_stored_rows_of_the_references_are_where_the_exact_values_are():
    rows = reference_rows()
    # The other cells need more seconds for the same.
    for name in ("dilemma", "dilemma3", "noisy", "ultimatum", "offers", "soft", "kuhn", "leduc", "encounters"):
        cell_values = exact_values(CELLS[name])
        zero, best = sum(cell_values.no_memory_per_episode), sum(cell_values.per_episode["sum"])
        exact = {
            "no-memory": 0.0,
            "myopic": (sum(cell_values.per_episode["myopic"]) - zero) / (best - zero),
            "bayes": 1.0,
        }
        for reference, value in exact.items():
            row = rows[reference][name]
            # 27 intervals of 95%: a few may miss the exact value, but none by as much as its own width.
            width = max(row["high"] - row["low"], 0.01)
            assert row["low"] - width <= value <= row["high"] + width, (name, reference)
    assert rows["no-memory"]["mean"]["low"] <= 0 <= rows["no-memory"]["mean"]["high"]
    assert rows["bayes"]["mean"]["mean"] == pytest.approx(1)
    assert max(rows[name]["mean"]["high"] for name in ("random", "nash", "counting")) < 0
    for learner in ("myopic", "bayes", "counting"):
        assert min(rows[learner][name]["low"] for name in ("own", "other")) > 0, learner
    for player in ("random", "nash", "no-memory"):
        assert min(rows[player][name]["low"] for name in ("own", "other")) <= 0, player


def test_a_stratified_mean_has_the_unbiased_variance_of_its_strata():
    error, freedom = strata_error([(0.25, [1.0, 3.0]), (0.75, [2.0, 2.0, 5.0])])
    variance = 0.25**2 * 2 / 2 + 0.75**2 * 3 / 3
    assert error == pytest.approx(variance**0.5)
    assert freedom == pytest.approx(variance**2 / ((0.25**2) ** 2 / 1 + (0.75**2) ** 2 / 2))
    assert strata_error([(1.0, [2.0, 2.0])]) == (0, 1)


def test_the_command_scores_a_reference_and_stores_its_records(tmp_path, capsys, monkeypatch):
    arguments = ["adapt", "policy:myopic", "--suite", "adapt-mini", "--out", str(tmp_path / "run"), "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["conditions"]) == ["hidden", "none", "other"]
    levels = {cell["cell"]: cell["level"]["mean"] for cell in report["conditions"]["hidden"]["cells"]}
    assert list(levels) == list(MINI)
    # Three families: noisy, both ultimatum games, kuhn.
    mean = (levels["noisy"] + (levels["ultimatum"] + levels["soft"]) / 2 + levels["kuhn"]) / 3
    assert report["level"]["mean"] == pytest.approx(mean)
    # No card and no die decides the myopic learner's level in the ultimatum game: (1.1125 - .9375) / (1.15 - .9375).
    assert levels["ultimatum"] == pytest.approx((1.1125 - 0.9375) / (1.15 - 0.9375))
    # Without memory it repeats its first episode, which earns as much as no memory.
    [less] = [cell["less"] for cell in report["conditions"]["none"]["cells"] if cell["cell"] == "ultimatum"]
    assert less["mean"] == pytest.approx((1.1125 - 0.9375) / (1.15 - 0.9375))
    assert report["verdict"] == "adapts"
    assert report["sentence"].startswith("policy:myopic adapts: ")
    assert json.loads((tmp_path / "run" / "adapt.json").read_text()) == report
    assert main(["verify", "--replay", str(tmp_path / "run" / "ultimatum" / "hidden")]) == 0
    # The page of the leaderboard computes the same level from the records, also where the memories that the runs copied
    # are not in the cache.
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "cache"))
    page = tmp_path / "board.html"
    assert main(["compare", str(tmp_path / "run"), "--sample", "1", "--page", str(page)]) == 0
    text = page.read_text("utf-8")
    cells = dict(re.findall(r'<td data-label="([^"]+)">\s*([^<]*)</td>', text.partition("Runs by setting")[0]))
    assert (cells["rank"], cells["agent"], cells["verdict"]) == ("1", "policy:myopic", "adapts")
    capsys.readouterr()
    assert main(arguments) == 2
    assert "already holds a suite. Continue it with --resume" in capsys.readouterr().err


def test_the_report_has_the_exact_values_of_each_decision(tmp_path):
    setting = Setting(cell_panel(CELLS["ultimatum"], 8), "adapt-ultimatum", {"memory": "none"})
    spec = "policy:ultimatum/reserve:3"
    measure(replace(PlayOptions(), out=tmp_path, baselines=False), make_agent(spec), setting, spec)
    decisions = decisions_of(tmp_path)
    assert len(decisions) == 8
    for index, line in Records(tmp_path).lines.items():
        first_decision, second_decision, third_decision = decisions[index]
        price = int(line["opponent"].rpartition(":")[2])
        # An offer of 3 shows one thing: whether the price is at most 3.
        assert first_decision.posterior == pytest.approx(
            {f"ultimatum/reserve:{reserve}": 1 / 8 for reserve in range(1, 9)}
        )
        likely = {f"ultimatum/reserve:{reserve}" for reserve in range(1, 9) if (reserve <= 3) == (price <= 3)}
        assert {name for name, chance in third_decision.posterior.items() if chance > 0} == likely
        assert second_decision.posterior == third_decision.posterior
        # In the last episode the best offer earns, over the prices that are left, the share that is kept.
        prices = [int(name.rpartition(":")[2]) for name in likely]
        worth = {offer: (10 - offer) / 10 * np.mean([reserve <= offer for reserve in prices]) for offer in range(1, 11)}
        assert worth[int(third_decision.best.removeprefix("offer "))] == pytest.approx(max(worth.values()))
        assert third_decision.cost == pytest.approx(max(worth.values()) - worth[3])
        packed_line = json.loads(pack_transcript(line, decisions[index]))
        assert [call["exact"].partition("; ")[2] for call in packed_line["calls"]] == [
            f"best {reserve.best}; cost {reserve.cost:.3f}" for reserve in decisions[index]
        ]


def test_a_model_states_its_size_before_it_starts(tmp_path, capsys):
    # The settings alone: a dry run loads no weights.
    PlaySettings("mage/KuhnPoker-Meta-v0", {"num_episodes": 4, "style": "plain"}).save(tmp_path)
    assert main(["adapt", f"model:{tmp_path}", "--suite", "adapt-mini", "--pool", "both", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "kuhn/described" in output
    assert "kuhn/hidden" in output
    assert "ultimatum" not in output
    # The main run, both runs of the verdict, and the other pool description.
    stated = r"96 meta-episodes, about [\d,]+ calls, [\d,]+ prompt tokens, at most [\d,]+ reply tokens, no price"
    assert re.search(stated, output)


def test_a_saved_model_plays_the_game_of_the_cell(tmp_path):
    trained = {"num_episodes": 4, "reveal": "always", "style": "plain"}
    PlaySettings("mage/KuhnPoker-Meta-v0", trained).save(tmp_path)
    suite = named_suite("adapt-mini")
    rows = [SuiteRow("hidden", f"model:{tmp_path}", memory=None)]
    [run] = plan_runs(suite, rows, None, suite.protocols, suite.lengths)
    # The ends of the scale are those of the cell's own game. The style of the prompts is the model's.
    assert run.setting.resolved["game"] == setting_for("adapt-mini-kuhn").resolved["game"] == {"reveal": "showdown"}
    assert run.setting.resolved["style"] == "plain"


def test_the_small_suite_has_at_most_600_calls():
    calls = 0.0
    for name in MINI:
        setting = setting_for(f"adapt-mini-{name}", memory="history")
        trajectories = evaluate(make_agent("scripted:random"), setting.tasks, setting.options)
        calls += sum(len(trajectory.steps) for trajectory in trajectories)
    assert 400 < calls <= 600


def test_several_agents_make_one_table_and_one_figure(tmp_path, capsys):
    agents = ["policy:no-memory", "policy:bayes"]
    file = tmp_path / "agents.svg"
    command = ["adapt", *agents, "--suite", "adapt-mini", "--no-controls", "--out", str(tmp_path / "runs")]
    assert main([*command, "--plot", str(file)]) == 0
    firsts = [line.split()[0].rstrip(":") for line in capsys.readouterr().out.splitlines() if line.strip()]
    names = [name for name in firsts if name.startswith("policy:")]
    # Both have a sentence in the order of the command, and a row in the order of their levels.
    assert names == [*agents, *agents[::-1]]
    assert "<svg" in file.read_text("utf-8")


@pytest.mark.more
def test_the_figure_shows_the_numbers_of_the_table(tmp_path):
    assert main(["adapt", "policy:bayes", "--suite", "adapt-mini", "--out", str(tmp_path)]) == 0
    result = AdaptResult.of(read_stored_suite(tmp_path))
    [axis] = adapt_figure([result]).axes
    level, memory_difference, other_difference = result.level(), result.difference("none"), result.difference("other")
    intervals = {line.get_color(): list(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 2}
    assert intervals["#3b6ea8"] == [level.low, level.high]
    assert intervals["#c05a2b"] == [memory_difference.low, memory_difference.high]
    assert intervals["#3f8f5f"] == [other_difference.low, other_difference.high]
