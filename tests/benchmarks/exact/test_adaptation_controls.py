"""`mage adapt --controls`: paired runs beside the main one, and the difference of the same tasks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.evaluation.scoring.estimates import Estimate, stratified
from benchmarks.evaluation.suites.adapt import CELLS
from benchmarks.evaluation.suites.pool_texts import description_of, has_description
from benchmarks.evaluation.suites.rows import SuiteRow
from benchmarks.exact.adapt_command import controls_of
from benchmarks.exact.adapt_table import PAIRED, AdaptResult
from benchmarks.exact.adaptation import CellScore, suite_difference
from mage_envs.registry import make_game
from mage_envs.text.neutral import NeutralWords
from tests.wrappers.test_neutral import LORE

MAIN = SuiteRow("described", "scripted:random", memory="history", pool="described")


def score(name: str, *strata: tuple[float, ...], failed: int = 0) -> CellScore:
    shares = tuple((1 / len(strata), values) for values in strata)
    found = stratified(shares)
    last = Estimate(0.0, None, None, 1)
    return CellScore(
        cell=name, unit="chips", score=found, memory=0.0, last=last, blind=0.0, best=1.0, failed=failed, shares=shares
    )


def test_a_control_plays_the_cells_that_have_it_with_the_options_of_the_main_run():
    columns = {column.name: column for column in controls_of(MAIN, tuple(PAIRED), tuple(CELLS))}
    assert list(columns) == list(PAIRED)
    left = {name: set(CELLS) - set(column.agent) for name, column in columns.items()}
    assert left == {"neutral": {"patterns"}, "none": set(), "other": {"alone"}, "same": set()}
    assert {name: column.source for name, column in columns.items()} == {
        "neutral": None,
        "none": None,
        "other": "described",
        "same": "described",
    }
    assert {(column.memory, column.pool) for column in columns.values()} == {("history", "described")}
    assert columns["neutral"].env_kwargs == {"style": "neutral"}
    assert columns["neutral"].control is None


def test_neutral_words_cover_the_descriptions_of_the_pools():
    for cell in CELLS.values():
        words = make_game(cell.game, **cell.options).spec
        if has_description(cell.pool) and words.neutral:
            text = NeutralWords(words).shown(description_of(cell.pool))
            assert (found := LORE.search(text)) is None, f"{found} in {text}"
            assert not re.search(r"\ban [^aeiou]", text), text


def test_the_difference_is_that_of_the_same_tasks():
    main_run = [score("kuhn", (0.0, 1.0, 2.0), (4.0, 6.0)), score("noisy", (1.0, 2.0))]
    other = [score("kuhn", (0.5, 1.5, 2.5), (4.5, 6.5)), score("noisy", (9.0, 9.0), failed=1)]
    found = suite_difference(other, main_run)
    # Half a point in every task: no luck is left, although the scores of the tasks differ a lot.
    assert found is not None
    assert (found.mean, found.half) == pytest.approx((0.5, 0.0), abs=1e-12)
    assert suite_difference([replace(one, failed=1) for one in other], main_run) is None
    result = AdaptResult("adapt", "a", 2, {"described": main_run, "none": other})
    assert "; without memory " in result.sentence()
    told = result.to_json()["conditions"]
    assert told["none"]["difference"]["mean"] == pytest.approx(0.5)
    assert np.isclose(told["described"]["difference"]["mean"], 0)


def test_bad_controls_are_refused(capsys):
    for names in ("frozen", "none,none", "none,"):
        assert main(["adapt", "scripted:random", "--suite", "adapt-mini", "--controls", names]) == 2
        assert "--controls expects different names of neutral, none, other, same" in capsys.readouterr().err
