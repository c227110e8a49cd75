"""`--model words`: a model over a game's own words, and the settings that it comes with."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from tests.trainer.tiny_runs import flags
from trainer.__main__ import main
from trainer.backends.play_settings import PlaySettings
from trainer.cli.words_model import words_model
from trainer.config.mage_config import MAGEConfig
from trainer.config.presets import WORDS as DEFAULTS
from trainer.trl import setup
from trainer.trl.setup import prefer_exact

SHORT = flags(max_rollouts=1, groups_per_rollout=1, num_generations=2, updates_per_rollout=1, disable_tqdm="true")


def config(env_id: str, folder: Path, **changes: object) -> MAGEConfig:
    return MAGEConfig(**{**DEFAULTS, "env_id": env_id, "output_dir": str(folder), **changes})  # type: ignore[arg-type]


def test_a_run_says_what_it_sets_and_flags_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    common = ["--model", "words", "--env_id", "mage/Ultimatum-Meta-v0", "--output_dir", str(out), "--gamma_step", "1"]
    common += ["--horizon", "hand"]
    assert main([*common, *SHORT, "--warm_start", "1", "--learning_rate", "0.01"]) == 0
    told = capsys.readouterr()
    assert "Finished after 1 updates" in told.out
    line = next(line for line in told.err.splitlines() if line.startswith("mage: --model words sets"))
    assert "backend=cached constrained=True" in line
    assert "advantage=exact" in line
    assert "learning_rate" not in line
    assert "horizon" not in line
    settings = PlaySettings.load(out)
    assert (settings.env_kwargs["style"], settings.max_new_tokens, settings.constrained) == ("words", 1, True)
    size = sum(weight.numel() for weight in AutoModelForCausalLM.from_pretrained(out).parameters())
    assert 80_000 < size < 100_000


@pytest.mark.parametrize(
    ("env_id", "opponents", "exact"),
    [
        ("mage/KuhnPoker-Meta-v0", None, True),
        ("mage/TicTacToe-Meta-v0", "pool:tictactoe/patterns", True),
        ("mage/TicTacToe-Meta-v0", None, False),
        ("mage/Negotiation-Meta-v0", None, False),
    ],
)
def test_the_critic_is_asked_in_small_games_against_exact_opponents(
    env_id: str, opponents: str | None, exact: bool, tmp_path: Path
) -> None:
    chosen = config(env_id, tmp_path, opponents=opponents)
    assert prefer_exact(chosen) == exact
    assert (chosen.advantage == "exact") == exact


@pytest.mark.parametrize(("most", "exact"), [(54, True), (53, False)])
def test_a_game_of_more_positions_is_learned_without_the_critic(
    most: int, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kuhn Poker has 54."""
    monkeypatch.setattr(setup, "CRITIC", most)
    assert prefer_exact(config("mage/KuhnPoker-Meta-v0", tmp_path)) == exact


def test_a_warm_start_is_a_function_of_the_seed(tmp_path: Path) -> None:
    """Two steps of language modelling move the weights, equally in two runs."""
    chosen = config("mage/KuhnPoker-Meta-v0", tmp_path)
    weights = [
        AutoModelForCausalLM.from_pretrained(words_model(tmp_path / str(number), chosen, steps)).lm_head.weight
        for number, steps in enumerate((0, 2, 2))
    ]
    assert not weights[0].equal(weights[1])
    assert weights[1].equal(weights[2])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "words", "--prompt_style", "prose"), "reads prompts of prompt_style=words, not 'prose'"),
        (("--model", "words", "--env_id", "mage/Sokoban-Meta-v0"), "style='words' needs a fixed set of actions"),
        (("--model", "words", "--warm_start", "-1"), "warm_start=-1 must be at least 0"),
        (("--model", "tiny", "--warm_start", "5"), "only with --model words"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *SHORT, "--use_cpu", "true", "--output_dir", str(tmp_path / "x")]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
