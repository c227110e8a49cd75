"""`python -m examples.five`: measurements of a model that is there, once, and the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.five import run
from examples.five.five_table import ModelResult, PanelScores, table
from examples.five.run import RESULTS, TRAINED, Environment, main
from mage_envs.trainer.config.presets import small_models
from tests.programs import train


@pytest.mark.more
def test_a_trained_model_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "kuhn-7" / "model"
    short = ["--imitate_steps", "2", "--max_rollouts", "1", "--groups_per_rollout", "2", "--num_generations", "2"]
    assert train(["--preset", "mini-kuhn", *short, "--output_dir", str(model)]) == 0
    (tmp_path / "kuhn-7" / TRAINED).write_text('{"cpu_seconds": 90}')
    kuhn = Environment(name="kuhn", expert="policy:bayes:kuhn/paper,3,1", opponents="pool:kuhn/paper", rows=2)
    monkeypatch.setattr(run, "ENVIRONMENTS", (kuhn,))
    assert main(["kuhn", "--seeds", "--runs", str(tmp_path)]) == 0
    text = (tmp_path / "five.txt").read_text()
    assert text in capsys.readouterr().out
    assert "mini, seed 7" in text
    assert (tmp_path / "five.png").stat().st_size > 1000
    [result] = json.loads((tmp_path / "five.json").read_text())
    assert (len(result["own"]["episodes"]), result["own"]["unit"]) == (3, "chips per hand")
    # Three opponents, both seats and two rows.
    assert result["expert"]["episodes"][0]["n"] == 12
    monkeypatch.setattr("mage_envs.benchmarks.runs.measuring.evaluate", None)
    assert main(["--seeds", "--runs", str(tmp_path)]) == 0
    assert (tmp_path / "five.txt").read_text() == text


def test_a_training_that_fails_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ENVIRONMENTS", (Environment(name="nothing", expert="scripted:first"),))
    assert main(["--runs", str(tmp_path)]) == 1
    assert not (tmp_path / "nothing-1" / TRAINED).exists()


def test_every_preset_of_a_small_model_is_measured() -> None:
    assert {f"mini-{environment.name}" for environment in run.ENVIRONMENTS} == set(small_models())


def test_the_committed_table_is_that_of_its_numbers() -> None:
    results = [
        ModelResult(**{key: PanelScores(**value) if isinstance(value, dict) else value for key, value in row.items()})
        for row in json.loads((RESULTS / "five.json").read_text())
    ]
    assert (RESULTS / "five.txt").read_text() == table(results)
    # The model of ALFWorld was measured by `mage eval` only.
    names = {environment.name for environment in run.ENVIRONMENTS}
    assert {result.environment for result in results} == names - {"alfworld"}
