"""Suites from strangers: a run of another setting, a missing cell and a second agent are refused by name."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.comparison.leaderboard import adaptation_tables
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.scale.stored_suites import differing_options, read_stored_suite
from mage_envs.cli.program import main

CELL, PANEL = CELLS["noisy"], full_name("adapt-mini-noisy")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Return the folder of a complete suite of random play."""
    folder = tmp_path_factory.mktemp("suite") / "run"
    arguments = ["adapt", "scripted:random", "--suite", "adapt-mini", "--pool", "hidden", "--no-controls"]
    assert main([*arguments, "--out", str(folder)]) == 0
    return folder


def test_a_page_ranks_suites_by_their_paired_levels(suite, tmp_path):
    best = tmp_path / "best"
    assert main(["adapt", "policy:bayes", "--suite", "adapt-mini", "--no-controls", "--out", str(best)]) == 0
    [table] = adaptation_tables([suite, best], {})
    first_row, last_row = table["rows"]
    assert [row["cells"][:2] for row in (first_row, last_row)] == [["1", "policy:bayes"], ["2", "scripted:random"]]
    assert [row["cells"][-1] for row in (first_row, last_row)] == ["no", "no"]
    # A level of 1 is 48 of 120 units to the right of level 0, on an axis from -1 to 1.5.
    assert first_row["bar"][:2] == (48.0, 48.0)
    assert last_row["bar"].start == 0.0
    assert not last_row["bar"].positive
    # Two identical runs do not differ significantly.
    [table] = adaptation_tables([best, best], {})
    assert {row["cells"][0] for row in table["rows"]} == {"1-2"}


@pytest.fixture
def copy(suite, tmp_path):
    """Return a copy that a test may change."""
    shutil.copytree(suite, tmp_path / "run")
    return tmp_path / "run"


def rewrite_plan(folder, keep=lambda run: True):
    """Make suite.json agree with the runs below the folder, as a forger would."""
    path = folder / "suite.json"
    plan = json.loads(path.read_text())
    plan["runs"] = [run for run in plan["runs"] if keep(run)]
    for run in plan["runs"]:
        records = Records(folder / run["folder"])
        run["root"], run["fingerprint"] = records.root()["root"], records.about["fingerprint"]
    plan["root"] = digest_of([run["root"] for run in plan["runs"]])
    path.write_text(json.dumps(plan, indent=2))


def play_run(folder, spec, **options):
    """Put another run into a suite in place of its own."""
    shutil.rmtree(folder)
    panel = options.pop("panel", PANEL)
    setting = Setting(named_panel(panel), panel, {"protocol": "adaptive", "num_episodes": 3, **options})
    measure(replace(PlayOptions(), out=folder, baselines=False), make_agent(spec), setting, spec)


def refuse(folder, capsys, message):
    assert main(["compare", str(folder), "--sample", "1", "--page", str(folder.parent / "page.html")]) == 2
    assert message in capsys.readouterr().err


def test_a_sound_suite_is_read(suite):
    stored = read_stored_suite(suite)
    assert (stored.suite, stored.agent, stored.missing) == ("adapt-mini", "scripted:random", ())
    assert list(stored.conditions) == ["hidden"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rounds": 3}, "game.rounds=3, expected 2"),
        ({"noise": 0.2}, "game.noise=0.2, expected 0.1"),
        ({"payoffs": [3, 0, 9, 1]}, "game.payoffs=[3, 0, 9, 1], expected [3, 0, 5, 1]"),
        ({"num_episodes": 4}, "num_episodes=4, expected 3"),
        ({"elicit": ["pd/all-c", "pd/all-d"]}, "further.elicit=['pd/all-c', 'pd/all-d'], expected no such option"),
        ({"hands_per_episode": 2}, "hands_per_episode=2, expected 1"),
        ({"protocol": "paper"}, "protocol."),
        ({"max_turns": 9}, "max_turns=9, expected 4"),
        ({"deal": "replay"}, "deal='replay', expected 'fresh'"),
        ({"reward": "released"}, "reward='released', expected 'task'"),
        ({"on_invalid": "forfeit"}, "further.on_invalid='forfeit', expected no such option"),
        ({"rules": "They always cooperate."}, "rules="),
        ({"reveal_opponent": True}, "further.reveal_opponent=True, expected no such option"),
        ({"show_score": False}, "further.show_score=False, expected no such option"),
        ({"memory": "frozen/history"}, None),
        ({"memory": "none"}, "memory='none', expected no control"),
        ({"style": "neutral"}, "style='neutral' under the condition hidden"),
    ],
)
def test_every_option_of_a_cell_is_refused_by_name(options, name):
    panel = replace(named_panel(PANEL), env_kwargs={})
    setting = Setting(panel, PANEL, {**CELL.env_kwargs(), "memory": "history", **options})
    differences = list(differing_options(setting, PANEL, CELL, "hidden"))
    if name is None:
        assert differences == []
    else:
        assert any(text.startswith(name) for text in differences), differences


@pytest.mark.parametrize("field", ["seed", "opponents", "seats", "size"])
def test_every_fact_of_a_panel_is_refused(field):
    panel = named_panel(PANEL)
    changed_fact = {"seed": panel.seed + 1, "opponents": {"pd/all-c": 1.0}, "seats": (1,), "size": 100}[field]
    setting = Setting(replace(panel, **{field: changed_fact}), PANEL, {"memory": "history"})
    differences = list(differing_options(setting, PANEL, CELL, "hidden"))
    assert any("are not those of adapt-mini-noisy" in text for text in differences), differences


@pytest.mark.parametrize("options", [{}, {"style": "paper"}, {"context": "conversation"}])
def test_an_agent_chooses_how_it_reads(options):
    setting = Setting(named_panel(PANEL), PANEL, {"memory": "reflection", **options})
    assert list(differing_options(setting, PANEL, CELL, "hidden")) == []


def test_a_run_with_other_options_under_the_name_of_a_cell_is_refused(copy, capsys):
    # The panel's name is free text in run.json.
    easy = replace(named_panel(PANEL), env_kwargs={**CELL.env_kwargs(), "noise": 0.0})
    folder = copy / "noisy" / "hidden"
    shutil.rmtree(folder)
    setting = Setting(easy, PANEL, {"protocol": "adaptive", "num_episodes": 3, "memory": "history"})
    agent = make_agent("scripted:random")
    measure(replace(PlayOptions(), out=folder, baselines=False), agent, setting, "scripted:random")
    rewrite_plan(copy)
    refuse(copy, capsys, "is no run of the cell noisy of adapt-mini: game.noise=0.0, expected 0.1.")


def test_a_suite_without_its_worst_cell_is_refused(copy, capsys):
    shutil.rmtree(copy / "kuhn")
    rewrite_plan(copy, keep=lambda run: not run["folder"].startswith("kuhn/"))
    refuse(copy, capsys, "holds 3 of 4 cells of adapt-mini; kuhn is missing.")


def test_one_cell_alone_is_refused(copy, capsys):
    for name in ("kuhn", "soft", "ultimatum"):
        shutil.rmtree(copy / name)
    rewrite_plan(copy, keep=lambda run: run["folder"] == "noisy/hidden")
    refuse(copy, capsys, "holds 1 of 4 cells of adapt-mini")
    assert read_stored_suite(copy, partial=True).missing == ("ultimatum", "soft", "kuhn")


def test_runs_of_several_agents_are_refused(copy, capsys):
    play_run(copy / "noisy" / "hidden", "policy:pd/all-d", memory="history")
    rewrite_plan(copy)
    refuse(copy, capsys, "mixes several agents (policy:pd/all-d, scripted:random), and a suite is played by one.")


def test_a_cell_of_another_suite_is_refused(copy, capsys):
    play_run(copy / "noisy" / "hidden", "scripted:random", memory="history", panel=full_name("adapt-noisy"))
    rewrite_plan(copy)
    refuse(copy, capsys, "is no run of the cell noisy of adapt-mini: its panel is 'adapt-noisy', expected")
