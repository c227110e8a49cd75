"""`--json` of the commands that print a table: the keys that other programs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mage_envs.cli.program import main

RANDOM, NASH = "runs/scripted-random", "runs/policy-kuhn-nash"
KEYS: dict[tuple[str, ...], str] = {
    ("list", "games"): "games",
    ("list", "panels"): "panels",
    ("list", "pools"): "pools",
    ("list", "memories"): "memories",
    ("list", "suites"): "suites",
    ("doctor",): "finding part",
    ("headroom", "KuhnPoker", "--opponents", "pool:kuhn/paper"): (
        "adaptation blind blind_per_episode bounds exploration gt known known_per_episode no_memory "
        "no_memory_per_episode note per_episode reachable seconds states title unsolved"
    ),
    ("headroom", "KuhnPoker", "--opponents", "pool:kuhn/paper", "--ceilings"): "notes rows title",
    ("eval", "policy:kuhn/nash", "--panel", "kuhn-paper-16", "--out", NASH, "--resume"): (
        "agent early_stop env_id floors objective overall panel rows rows_are scale unit with_losses"
    ),
    ("verify", RANDOM): "folder meta_episodes planned problems root",
    ("verify", RANDOM, "--replay"): "calls damaged_lines differences folder meta_episodes",
    ("compare", RANDOM, NASH): "clusters failed first pairs panel rows second unit with_losses",
    ("regret", NASH): "agent credit episodes left_out meta_episodes parts probabilities states unit whole",
    ("tournament", "KuhnPoker", "--opponents", "uniform,kuhn/rock", "--games", "4"): (
        "exact_values_inside_their_interval failures notes payoffs ranking settings unit"
    ),
    ("paper", "ablation-4.4.3"): "baseline ceiling mark measure method ours panel paper",
}
"""Words of a command to the keys of its objects. The docs do not name them all, so a renamed field would go unseen."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("json")
    agents = ["policy:kuhn/nash", "scripted:random"]
    assert main(["eval", *agents, "--panel", "kuhn-paper-16", "--out", str(path / "runs")]) == 0
    return path


@pytest.mark.parametrize("words", KEYS, ids=" ".join)
def test_the_keys(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    objects = printed if isinstance(printed, list) else [printed]
    assert {" ".join(sorted(each)) for each in objects} == {KEYS[words]}
