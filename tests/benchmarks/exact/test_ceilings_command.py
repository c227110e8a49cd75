"""`mage ceilings` and `mage tournament`: the values of the tables as JSON."""

from __future__ import annotations

import json

import pytest

from mage_envs.cli.program import main


def test_the_ceilings_as_json_are_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ceilings", "KuhnPoker", "--no-bayes", "--pool", "kuhn/paper"]
    assert main([*words, "--json"]) == 0
    opponents, pools = json.loads(capsys.readouterr().out)
    rows = {row["opponent"]: row for row in opponents["rows"]}
    # In equilibrium the first seat loses 1/18 of a chip, and a best response gains nothing against it.
    assert rows["kuhn/nash"]["first"] == pytest.approx(-1 / 18, abs=1e-12)
    assert rows["kuhn/nash"]["second"] == pytest.approx(1 / 18, abs=1e-12)
    assert rows["kuhn/nash"]["NashConv"] == pytest.approx(0, abs=1e-12)
    assert pools["rows"] == [{"pool": "pool:kuhn/paper", "blind": pytest.approx(0.125), "best response": 0.275}]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == ["pool:kuhn/paper", "0.125", "0.275"]


def test_a_tournament_as_json_has_the_exact_payoffs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tournament", "KuhnPoker", "--policies", "kuhn/nash,kuhn/rock", "--games", "4", "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert {one["policy"] for one in data["ranking"]} == {"kuhn/nash", "kuhn/rock"}
    assert data["payoffs"]
    assert data["failures"] == []
