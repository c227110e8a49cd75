"""The floors of tasks that repeat: played on the same panel, stored by their settings, printed beside the scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mage_envs.cli.program
from mage_envs import settings_of
from mage_envs.benchmarks import evaluate, make_agent, summarise
from mage_envs.benchmarks.evaluation.run import baselines
from mage_envs.benchmarks.evaluation.run.baselines import baseline_rows
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import load

TINY = {"WebShop": {"size": "tiny"}, "ALFWorld": {"size": "tiny"}, "Sokoban": {"boxes": 1}}


def setting(game: str, **options: object) -> Setting:
    panel = Panel(env_id=f"mage/{game}-Meta-v0", about="", seed=5, rows_per_cell=6, seats=())
    return Setting(panel, "seed 5", {**TINY.get(game, {}), **options})


class Counted:
    """`evaluate`, with a record of its requests."""

    def __init__(self) -> None:
        self.played: list[str] = []

    def __call__(self, agent, task_setting):
        self.played.append(agent.name)
        return evaluate(agent, task_setting.tasks, task_setting.options)


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For the rows alone: catalogues stay where all tests have them."""
    monkeypatch.setattr(baselines, "cache_root", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "floors"


@pytest.mark.parametrize("game", ["WebShop", "Sokoban"])
def test_rows_are_the_policies_scores_on_the_same_tasks(game: str) -> None:
    task_setting = setting(game)
    rows = baseline_rows(task_setting, Counted())
    assert [row.opponent for row in rows] == list(settings_of(game).references)
    for row, spec in zip(rows, settings_of(game).references.values(), strict=True):
        summary = summarise(
            evaluate(make_agent(spec), task_setting.tasks, task_setting.options),
            game_of(task_setting.panel.env_id, task_setting.options),
        )
        assert row.episodes == summary.overall.episodes
        assert row.pass_at == summary.overall.pass_at


def test_played_floors_are_stored_by_their_settings(cache_of_its_own: Path) -> None:
    play = Counted()
    rows = baseline_rows(setting("WebShop"), play)
    assert play.played == list(settings_of("WebShop").references.values())
    assert baseline_rows(setting("WebShop", context="conversation", memory="history", mode="html"), play) == rows
    assert len(play.played) == 3, "what a learner is shown changes nothing"
    for path in cache_of_its_own.iterdir():
        path.write_text(path.read_text()[:-20])
    assert baseline_rows(setting("WebShop"), play) == rows
    assert len(play.played) == 6, "a damaged file is played again"
    longer_rows = baseline_rows(setting("WebShop", num_episodes=4), play)
    assert len(play.played) == 9
    assert {len(row.episodes) for row in longer_rows} == {4}
    assert all(json.loads(path.read_text()) for path in cache_of_its_own.iterdir())


def test_games_without_repeated_tasks_have_none() -> None:
    play = Counted()
    panel = Panel(env_id="mage/KuhnPoker-Meta-v0", about="", seed=5, rows_per_cell=1, opponents={"uniform": 1.0})
    assert baseline_rows(Setting(panel, "seed 5"), play) == ()
    assert not play.played


def test_a_floor_that_cannot_be_played_is_left_out() -> None:
    def play(agent, task_setting):
        if agent.name == "policy:webshop/next":
            raise RuntimeError("All 6 meta-episodes of policy:webshop/next failed")
        return evaluate(agent, task_setting.tasks, task_setting.options)

    with pytest.warns(RuntimeWarning, match="'floor: webshop/next' is left out: All 6"):
        rows = baseline_rows(setting("WebShop"), play)
    assert [row.opponent for row in rows] == ["floor: random", "floor: webshop/first"]


def test_mage_bench_prints_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", "policy:webshop/rule", "--env", "mage/WebShop-Meta-v0", "--rows", "4"]
    words += ["--game-option", "size=tiny", "--out", str(tmp_path / "run")]
    assert mage_envs.cli.program.main(words) == 0
    table = capsys.readouterr().out
    assert all(f"\n{label} " in table for label in settings_of("WebShop").references)
    run = load(tmp_path / "run")
    assert [row.opponent for row in run.floors] == list(settings_of("WebShop").references)
    assert "floor: webshop/next,1,success," in (tmp_path / "run" / "scores.csv").read_text()
    assert mage_envs.cli.program.main([*words[:-2], "--no-baselines"]) == 0
    assert "floor" not in capsys.readouterr().out
