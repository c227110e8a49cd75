"""`mage ablate`: the presets of a section, each with several seeds, in one table."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks.__main__
from benchmarks.sweeps.ablation import SECTIONS, ablation_runs
from trainer.__main__ import main as train
from trainer.config.presets import PRESETS


def test_sections_hold_every_ablation_once() -> None:
    runs = [run for section in SECTIONS for run in ablation_runs(section, "words", 2, None)]
    named = [run.arguments[1] for run in runs if run.seed == 0]
    assert sorted(named) == sorted(name for name in PRESETS if name.startswith("ablation-"))
    assert [run.seed for run in runs[:4]] == [0, 1, 0, 1]


@pytest.mark.parametrize(("section", "says"), [("4.4.1", "returns: differential"), ("4.4.3", "anchor: global")])
def test_a_training_is_what_its_preset_says(
    section: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ablation_runs(section, "words", 1, 3)[0]
    assert train([*first.arguments, "--output_dir", str(tmp_path), "--dry-run"]) == 0
    told = capsys.readouterr().out
    for line in (
        says,
        "advantage: gigpo",
        "max_rollouts: 3",
        "eval_panel: tictactoe-paper-128",
        "learning_rate: 0.001",
    ):
        assert line in told


def test_a_folder_keeps_the_presets_own_settings() -> None:
    (run,) = ablation_runs("4.4.3", "runs/model", 1, None)[:1]
    assert run.arguments[:4] == ("--preset", "ablation-global", "--model", "runs/model")
    assert "--advantage" not in run.arguments
    assert "--max_rollouts" not in run.arguments


def test_no_seeds_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.__main__.main(["ablate", "4.4.1", "--seeds", "0", "--out", str(tmp_path / "out")]) == 2
    assert "--seeds 0 trains nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_example_of_the_help_trains_and_prints_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        benchmarks.__main__.main(["ablate", "4.4.3", "--seeds", "1", "--rollouts", "2", "--out", "runs/anchors"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["global"] * (len(lines) // 2) + ["local"] * (len(lines) // 2)
    assert any("best evaluation" in line for line in lines)
