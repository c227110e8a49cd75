"""`mage sweep`: presets x overrides x seeds are trained once each, gone on with, and come out in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mage_envs.benchmarks.sweeps.plan import SweepRun, read_plan
from mage_envs.benchmarks.sweeps.sweep import table
from mage_envs.benchmarks.sweeps.training import RESULT, trainer_in
from tests.programs import sweep as main
from tests.programs import train

PLAN = """
presets: [mage-kuhn]
overrides: {base: {}, late: {gamma_episode: 0.9}}
common:
  model: tiny
  max_rollouts: 1
  groups_per_rollout: 1
  num_generations: 2
  num_episodes: 2
  updates_per_rollout: 1
  max_completion_length: 2
  env_kwargs: {max_turns: 1}
  use_cpu: true
  save_strategy: "no"
  log_transcripts: 0
"""


def test_the_sweep_that_was_run_is_the_one_in_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    """Its file has the algorithms of its table, and each is a run that mage train takes."""
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    runs = read_plan(results / "sweep_kuhn.yaml", 3)
    table_rows = [line.split() for line in (results / "sweep_kuhn.txt").read_text().splitlines()[1:]]
    assert len(runs) == 12
    assert dict.fromkeys(run.name for run in runs) == dict.fromkeys(words[0] for words in table_rows)
    assert {words[-1] for words in table_rows} == {"3"}
    for run in runs[::3]:
        assert train([*run.arguments, "--seed", "0", "--dry-run"]) == 0


def test_a_sweep_trains_the_missing_runs_and_makes_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    command = [str(tmp_path / "plan.yaml"), "--seeds", "1", "--output_dir", str(tmp_path / "out")]
    assert main(command) == 0
    first_table = capsys.readouterr().out
    assert [line.split()[0] for line in first_table.splitlines()[2::6]] == ["mage-kuhn-base", "mage-kuhn-late"]
    results = sorted((tmp_path / "out").rglob(RESULT))
    assert [path.parent.parent.name for path in results] == ["mage-kuhn-base", "mage-kuhn-late"]
    times = [path.stat().st_mtime_ns for path in results]
    results[1].unlink()
    assert main(command) == 0
    assert capsys.readouterr().out == first_table
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in rows[::6]] == ["mage-kuhn-base", "mage-kuhn-late"]
    assert [f"{row['mean']:.3f}" for row in rows] == [line.split()[-3] for line in first_table.splitlines()[2:]]
    assert results[0].stat().st_mtime_ns == times[0]  # done before, so it was not trained again
    assert results[1].stat().st_mtime_ns > times[1]
    stored_result = json.loads(results[0].read_text())
    results[0].write_text(json.dumps({**stored_result, "arguments": ["--x"]}))
    assert main(command) == 2
    assert "belongs to other settings (--x); choose another --out." in capsys.readouterr().err


def test_a_training_takes_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a training to one core, and restore the number of threads after it."""
    import torch

    thread_counts: list[int] = []

    def fails(words: list[str]) -> int:
        thread_counts.append(torch.get_num_threads())
        print("no training today")
        return 2

    monkeypatch.setattr("mage_envs.trainer.cli.train.main", fails)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError, match="one, seed 3: no training today"):
            trainer_in(tmp_path)(SweepRun("one", 3, ()))
        assert (thread_counts, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(threads_before)


def test_intervals_are_over_seeds() -> None:
    results = {"a": {0: {"value, last": 1.0}, 1: {"value, last": 3.0}}, "b": {0: {"value, last": 2.0}}}
    lines = str(table(results)).splitlines()
    assert lines[2].split() == ["a", "value,", "last", "2.000", "-10.706", "to", "14.706", "2"]  # 2 +- 12.706 * 1
    assert lines[3].split() == ["b", "value,", "last", "2.000", "-", "1"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "must contain presets, overrides, common and nothing else"),
        ("preset: [a]\n", "must contain presets, overrides, common and nothing else"),
        ("presets: mage-kuhn\n", "presets must be a list, overrides and common must be mappings"),
        ("presets: [a\n", "is not valid YAML"),
        ("presets: [mage-khun]\n", "unknown preset 'mage-khun'. Did you mean mage-kuhn"),
    ],
)
def test_a_plan_that_cannot_be_used_is_one_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    assert main([str(tmp_path / "plan.yaml"), "--output_dir", str(tmp_path / "out")]) == 2
    (line,) = [error_line for error_line in capsys.readouterr().err.splitlines() if error_line.startswith("mage: ")]
    assert says in line


def test_every_preset_meets_every_override(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("presets: [x, y]\noverrides: {a: {}, b: {beta: 0.1, use_cpu: true}}\n")
    runs = read_plan(tmp_path / "plan.yaml", 2)
    assert [(run.name, run.seed) for run in runs] == [
        (f"{preset}-{override}", seed) for preset in "xy" for override in "ab" for seed in (0, 1)
    ]
    assert runs[2].arguments == ("--preset", "x", "--beta", "0.1", "--use_cpu", "true")
