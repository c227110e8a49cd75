"""`mage paper SECTION`: the presets of a section, each with several seeds, in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mage_envs.cli.program
from mage_envs.benchmarks import SUITES
from mage_envs.benchmarks.paper.ablation import ablation_runs, panels_of
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.sweeps.training import evaluation_measures
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from mage_envs.trainer.config.presets import ABLATION_PRESETS, ABLATIONS, PRESETS
from tests.programs import train


def test_every_preset_of_an_ablation_is_one_run_under_one_name() -> None:
    assert tuple(ABLATIONS) == tuple(ABLATION_PRESETS)
    runs = [run for name in ABLATIONS for run in ablation_runs(name, "runs/model", 2, None)]
    run_presets = {run.arguments[1] for run in runs}
    assert {name for name in PRESETS if name.startswith("ablation-")} <= run_presets <= set(PRESETS)
    assert [run.seed for run in runs[:4]] == [0, 1, 0, 1]
    names_by_key: dict[str, str] = {}
    for name, fields in PRESETS.items():
        key = json.dumps({field: value for field, value in fields.items() if field != "output_dir"}, sort_keys=True)
        assert names_by_key.setdefault(key, name) == name, "two presets of one run"
    # The paper's own choices are the presets of its table.
    assert ABLATION_PRESETS["4.4.1"]["alfworld-differential"] == "mage-alfworld-paper"
    assert ABLATION_PRESETS["4.4.1"]["webshop-cumulative"] == "lamer-webshop-paper"
    assert ABLATION_PRESETS["4.4.2"]["balanced-opponent-stationary"] == "mage-tictactoe-paper"
    assert ABLATION_PRESETS["4.4.3"]["global"] == "mage-kuhn-paper"
    # The grouping has no effect on a population of one opponent.
    fixed = [name for name in ABLATION_PRESETS["4.4.2"] if name.startswith("fixed")]
    assert fixed == ["fixed-opponent-stationary", "fixed-pooled-stationary"]


def test_the_papers_ablations_are_evaluated_where_the_paper_evaluated_them() -> None:
    panels_by_ablation = {
        name: {panels_of(name, preset) for preset in ABLATION_PRESETS[name].values()} for name in ABLATIONS
    }
    assert panels_by_ablation["4.4.1"] == {("paper-alfworld-seen",), ("paper-webshop",)}
    assert panels_by_ablation["4.4.2"] == {("paper-tictactoe-mcts100", "paper-tictactoe-mcts1000")}
    assert panels_by_ablation["4.4.3"] == {("paper-kuhn-cfr", "paper-kuhn-cfr-second")}
    assert panels_by_ablation["tictactoe-anchors"] == {("tictactoe-paper-128",)}
    assert panels_by_ablation["headroom-returns"] == {("controls-related-128",), ("encounters-related-128",)}
    evaluated = {
        panel
        for name in ABLATIONS
        for panels in panels_by_ablation[name]
        for panel in panels
        if panel.startswith("paper")
    }
    assert evaluated - {"paper-kuhn-cfr-second"} == set(SUITES["paper-ablations"].panels)
    [trial] = {run.panels for run in ablation_runs("4.4.2", "tiny", 1, None)}
    assert trial == ("paper-tictactoe-mcts100-16", "paper-tictactoe-mcts1000-16")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("4.4.3", "anchor: global"),
        ("tictactoe-returns", "returns: differential"),
        ("headroom-opponents", "opponents: encounters:kind"),
    ],
)
def test_a_training_is_what_its_preset_says(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_run = ablation_runs(name, "words", 1, 3)[0]
    assert train([*first_run.arguments, "--output_dir", str(tmp_path), "--dry-run"]) == 0
    output = capsys.readouterr().out
    for line in (says, "advantage: gigpo", "max_rollouts: 3", "learning_rate: 0.001"):
        assert line in output


def test_a_folder_keeps_the_presets_own_settings() -> None:
    (run,) = ablation_runs("4.4.3", "runs/model", 1, None)[:1]
    assert run.arguments[:4] == ("--preset", "mage-kuhn-paper", "--model", "runs/model")
    assert "--advantage" not in run.arguments
    assert "--max_rollouts" not in run.arguments


def test_a_game_of_free_text_is_not_a_game_of_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mage_envs.cli.program.main(["paper", "4.4.1", "--out", str(tmp_path / "out")]) == 2
    assert "--model words plays games with a fixed set of actions, which ALFWorld has not" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_trained_model_is_evaluated_on_panels_whose_data_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    save_tiny(tmp_path, tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "words", "context": "conversation", "memory": "history", "protocol": "paper"}
    PlaySettings("mage/KuhnPoker-Meta-v0", options, max_new_tokens=1, constrained=True).save(tmp_path)
    rates = evaluation_measures(tmp_path, ["paper-kuhn-cfr-16", "paper-webshop"])
    records = Records(tmp_path / "evaluations" / "paper-kuhn-cfr-16").trajectories()
    won = [any(episode.success for episode in trajectory.episodes) for trajectory in records]
    assert rates == {"paper-kuhn-cfr-16": sum(won) / 16}
    assert {trajectory.num_episodes for trajectory in records} == {10}
    # A second call reads the records.
    assert evaluation_measures(tmp_path, ["paper-kuhn-cfr-16"]) == rates


def test_no_seeds_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mage_envs.cli.program.main(["paper", "4.4.3", "--seeds", "0", "--out", str(tmp_path / "out")]) == 2
    assert "--seeds 0 trains nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_example_of_the_help_trains_and_prints_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        mage_envs.cli.program.main(["paper", "4.4.3", "--seeds", "1", "--rollouts", "2", "--out", "runs/anchors"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["global"] * (len(lines) // 2) + ["local"] * (len(lines) // 2)
    assert any("paper-kuhn-cfr" in line for line in lines)
