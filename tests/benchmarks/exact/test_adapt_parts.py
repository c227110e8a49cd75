"""`mage adapt --elicit`: the parts of the regret of each cell add up to 1 - level, and the question changes no play."""

from __future__ import annotations

import json

import pytest

from mage_envs.benchmarks.evaluation.suites.adapt import CELLS
from mage_envs.benchmarks.scale.adapt_parts import has_parts
from mage_envs.benchmarks.scale.stored_suites import read_stored_suite
from mage_envs.cli.program import main


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Return the folder of a suite of the best play that forgets between episodes, which was asked for its belief."""
    folder = tmp_path_factory.mktemp("suite") / "run"
    arguments = ["adapt", "policy:no-memory", "--suite", "adapt-mini", "--no-controls", "--elicit"]
    assert main([*arguments, "--out", str(folder)]) == 0
    return folder


def test_the_parts_of_a_cell_add_up_to_its_distance_from_the_best_learner(suite):
    result = json.loads((suite / "adapt.json").read_text())
    assert set(result["parts"]) == {"noisy", "ultimatum", "soft", "kuhn"}
    for cell in result["conditions"]["hidden"]["cells"]:
        parts, lines = result["parts"][cell["cell"]], cell["lines"]
        unit = sum(lines["best_learner"]) - sum(lines["no_memory"])
        means = {name: value["mean"] / unit for name, value in parts["total"].items()}
        assert means["regret"] == pytest.approx(1 - cell["level"]["mean"], abs=1e-9)
        total = means["inference"] + means["exploration"] + means["decision"] + means["unsplit"]
        assert total == pytest.approx(means["regret"], abs=1e-12)
        assert means["inference"] > 0.1, "it reports the prior"
        # It plays for the present episode alone, and best under the prior.
        assert means["decision"] == pytest.approx(0, abs=1e-9)
        assert parts["valid"] == parts["answers"] == 2 * cell["planned"]
        assert parts["total"]["brier"]["mean"] > parts["total"]["posterior_brier"]["mean"]


def test_the_table_prints_them_with_the_gap_as_a_row_of_its_own(suite):
    text = (suite / "adapt.txt").read_text()
    rows = [line.split("  ") for line in text.splitlines() if "acts against own belief" in line]
    assert len(rows) == 4
    assert "answers state probabilities" in text


def test_such_a_suite_is_read_as_any_other(suite):
    assert read_stored_suite(suite).missing == ()


def test_cells_with_prices_of_their_own_and_controls_have_no_parts():
    assert {name for name, cell in CELLS.items() if not has_parts(cell)} == {"keys", "success", "patterns", "alone"}
