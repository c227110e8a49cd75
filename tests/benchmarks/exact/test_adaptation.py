"""The suite `adapt`: exact scale, unbiased scores, intervals, and an independent computation from raw records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.scoring.estimates import stratified
from benchmarks.evaluation.suites.adapt import CELLS, MINI, REFERENCES
from benchmarks.evaluation.suites.panels import named_panel
from benchmarks.evaluation.suites.paper import named_suite, setting_for
from benchmarks.evaluation.suites.pool_texts import has_description
from opponents import as_pool, make_opponent

GOLDEN = json.loads((Path(__file__).parent / "adapt_fingerprints.json").read_text())
"""Panel to the fingerprint of its setting with the memory `history`; a change needs a new name."""
PANELS = [*named_suite("adapt").panels, *named_suite("adapt-mini").panels]


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


@pytest.mark.parametrize("name", CELLS)
def test_every_reference_plays_its_cell(name):
    game = game_of(named_panel(f"adapt-{name}").env_id, named_panel(f"adapt-{name}").env_kwargs)
    for reference in REFERENCES:
        spec = CELLS[name].agent(reference)
        if spec is not None and spec.startswith("policy:"):
            assert make_opponent(spec.removeprefix("policy:"), game)


def test_every_cell_with_a_score_describes_its_pool():
    for name, cell in CELLS.items():
        assert cell.control or has_description(cell.pool), name
        if has_description(cell.pool):
            setting = setting_for(f"adapt-{name}", rules=cell.rules())
            assert setting.resolved["further"]["rules"] == cell.rules()
            assert setting.fingerprint != setting_for(f"adapt-{name}").fingerprint


def test_a_stratified_mean_has_the_unbiased_variance_of_its_strata():
    found = stratified([(0.25, [1.0, 3.0]), (0.75, [2.0, 2.0, 5.0])])
    variance = 0.25**2 * 2 / 2 + 0.75**2 * 3 / 3
    freedom = variance**2 / ((0.25**2) ** 2 / 1 + (0.75**2) ** 2 / 2)
    from scipy.stats import t

    assert found.mean == pytest.approx(0.25 * 2 + 0.75 * 3)
    assert found.half == pytest.approx(t.ppf(0.975, freedom) * variance**0.5)
    assert found.n == 5
    assert stratified([(1.0, [2.0, 2.0])]).half == 0
    assert stratified([(0.5, [2.0]), (0.5, [1.0, 2.0])]).half is None
    with pytest.raises(ValueError, match="at least one stratum"):
        stratified([])


def test_the_command_scores_a_reference_and_resumes(tmp_path, capsys):
    arguments = ["adapt", "policy:myopic", "--suite", "adapt-mini", "--out", str(tmp_path / "run"), "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    [condition] = found["conditions"].values()
    scores = {cell["cell"]: cell["score"]["mean"] for cell in condition["cells"]}
    assert list(scores) == list(MINI)
    assert condition["score"]["mean"] == pytest.approx(np.mean(list(scores.values())))
    # No card and no die decides the myopic learner's score in the ultimatum game: (1.1125 - .9375) / (1.15 - .9375).
    assert scores["ultimatum"] == pytest.approx((1.1125 - 0.9375) / (1.15 - 0.9375))
    assert found["sentence"].startswith("policy:myopic adapts: ")
    assert json.loads((tmp_path / "run" / "adapt.json").read_text()) == found
    assert main(["replay", str(tmp_path / "run" / "ultimatum" / "hidden"), "--verify"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_pool_of_the_suite_is_registered():
    for cell in CELLS.values():
        assert len(as_pool(dict(cell.opponents) if isinstance(cell.opponents, dict) else cell.opponents)) >= 1
