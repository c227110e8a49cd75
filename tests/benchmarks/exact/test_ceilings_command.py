"""`mage ceilings` and `mage tournament`: the values of the tables as JSON."""

from __future__ import annotations

import json

import pytest

from mage_envs.cli.program import main


def test_the_ceilings_as_json_are_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["headroom", "--ceilings", "KuhnPoker", "--episodes", "1", "--opponents", "pool:kuhn/paper"]
    assert main([*words, "--json"]) == 0
    opponents, pools = json.loads(capsys.readouterr().out)
    rows = {row["opponent"]: row for row in opponents["rows"]}
    # In equilibrium the first seat loses 1/18 of a chip, and a best response gains nothing against it.
    assert rows["kuhn/nash"]["first"] == pytest.approx(-1 / 18, abs=1e-12)
    assert rows["kuhn/nash"]["second"] == pytest.approx(1 / 18, abs=1e-12)
    assert rows["kuhn/nash"]["NashConv"] == pytest.approx(0, abs=1e-12)
    [row] = pools["rows"]
    assert row.pop("seconds") > 0
    expected = {"blind": 0.125, "Bayes 1": 0.125, "best 1": 0.125, "states": 2, "best response": 0.275}
    assert row == {"pool": "pool:kuhn/paper"} | {name: pytest.approx(value) for name, value in expected.items()}
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[:5] == ["pool:kuhn/paper", "0.125", "0.125", "0.125", "2"]
    assert lines[-1].split()[-1] == "0.275"


def test_a_tournament_as_json_has_the_exact_payoffs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tournament", "KuhnPoker", "--opponents", "kuhn/nash,kuhn/rock", "--games", "4", "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert {entry["policy"] for entry in data["ranking"]} == {"kuhn/nash", "kuhn/rock"}
    assert data["payoffs"]
    assert data["failures"] == []
