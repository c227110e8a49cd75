"""`mage list`: games and opponents, and the parts that belong to evaluations."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import mage_envs
from mage_envs.benchmarks.evaluation.run.agents import FORMS
from mage_envs.benchmarks.evaluation.suites.panels import panel_names
from mage_envs.benchmarks.evaluation.suites.paper import SUITES, setting_for
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.cli.program import main
from tests.processes import ROOT

PARTS = ("games", "openspiel", "pools", "memories", "panels", "suites", "agents")


def run_list(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["list", *words]) == 0
    return capsys.readouterr().out


def test_the_list_of_games(capsys: pytest.CaptureFixture[str]) -> None:
    full_list, game_list = run_list(capsys), run_list(capsys, "TicTacToe")
    assert "mage/KuhnPoker-v0  mage/KuhnPoker-Meta-v0" in full_list
    assert "pool:kuhn/demo" in full_list
    assert full_list.endswith(
        "\n  more       mage list opponents  mage list panels  mage list suites\n             mage list agents\n"
    )
    assert game_list.startswith("TicTacToe\n")
    assert "minimax" in game_list
    assert "switch:first,then,episode" in game_list
    assert "kuhn/nash" not in game_list
    assert game_list in full_list
    # The four parts together, and nothing else, are the list without a part.
    parts = "".join(run_list(capsys, part) for part in PARTS[:4])
    assert full_list.startswith(parts)
    assert full_list.removeprefix(parts).count("\n") == 2


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_the_list_fits_the_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run_list(capsys).splitlines()
    assert max(map(len, lines)) <= columns
    assert sum("mage/KuhnPoker-Meta-v0" in line for line in lines) == 1
    assert any(len(line) > columns - 15 for line in lines), "and uses it"


def test_a_part_has_only_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    agents, suites = run_list(capsys, "agents"), run_list(capsys, "suites")
    assert all(form in agents for form in FORMS)
    assert suites.startswith("Suites\n  paper-table1: ")
    assert "K =  3" not in suites
    assert "paper-table1" not in agents


def test_suites_with_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage_envs.benchmarks.evaluation.suites.paper.SUITES", {"demo": SUITES["demo"]})
    setting = setting_for("kuhn-train", protocol="paper", num_episodes=10)
    assert f"      paper     K = 10  512 {setting.fingerprint[:12]} " in run_list(capsys, "suites", "--settings")
    [suite] = json.loads(run_list(capsys, "suites", "--settings", "--json"))["suites"]
    assert len(suite["settings"]) == 2 * 2 * 2
    [entry] = [
        candidate
        for candidate in suite["settings"]
        if (candidate["panel"], candidate["protocol"], candidate["episodes"]) == ("kuhn-train", "paper", 10)
    ]
    assert entry["fingerprint"] == setting.fingerprint
    assert entry["max_calls"] == setting.most_calls


def test_json_has_the_same_values(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    full_list = json.loads(run_list(capsys, "--json"))
    assert list(full_list) == list(PARTS[:4])
    assert [game["name"] for game in full_list["games"]] == list(mage_envs.list_games())
    assert full_list["memories"] == list(mage_envs.list_memories())
    assert full_list["pools"] == [f"pool:{name}" for name in mage_envs.list_pools()]
    [game] = json.loads(run_list(capsys, "KuhnPoker", "--json"))["games"]
    assert game in full_list["games"]
    assert "kuhn/nash" in game["opponents"]
    assert json.loads(run_list(capsys, "agents", "--json")) == {
        "agents": [{"form": form, "about": about} for form, about in FORMS.items()]
    }

    # A panel without its data has no fingerprint.
    def missing(setting: Setting) -> str:
        raise ImportError("no data")

    monkeypatch.setattr(Setting, "fingerprint", property(missing))
    panels = json.loads(run_list(capsys, "panels", "--json"))["panels"]
    assert [panel["name"] for panel in panels] == list(panel_names())
    assert {panel["fingerprint"] for panel in panels} == {None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Kuhn"], "Unknown game or part 'Kuhn'. Did you mean 'KuhnPoker'?"),
        (["panel"], "Unknown game or part 'panel'. Did you mean 'panels'?"),
        (["panels", "--settings"], "--settings applies only to suites. Use mage list suites --settings."),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", *words]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_the_games_are_listed_without_the_evaluation() -> None:
    code = "import sys; from mage_envs.cli import program; program.main(['list', 'KuhnPoker']); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = process.stdout.splitlines()[-1].split()
    assert "mage_envs.benchmarks.commands.listing" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(("mage_envs.benchmarks.evaluation", "mage_envs.trainer", "torch", "matplotlib"))
    ]
