"""`mage train`: the presets are the paper's, each trains, a run resumes, and every mistake is one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
import yaml
from safetensors.torch import load_file

from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.play_settings import PlaySettings, load_generator
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.config.presets import ABLATION_PRESETS, PRESETS
from tests.packages import mark_params
from tests.programs import train as main
from tests.trainer.tiny_runs import TINY, flags

KUHN_POOL = {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}
TICTACTOE_POOL = {"mcts:100": 8 / 16, **{f"tictactoe/pattern-{i}": 1 / 16 for i in range(1, 7)}, "uniform": 2 / 16}
COMMON = {
    "model_name_or_path": "Qwen/Qwen3-4B",
    "groups_per_rollout": 16,
    "max_prompt_length": 4096,
    "gamma_step": 0.95,
    "gamma_episode": 0.6,
    "beta": 0.1,
    "learning_rate": 1e-6,
    "epsilon": 0.2,
    "delta": 3.0,
    "entropy_coef": 0.001,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "constant",
    "temperature": 1.0,
    "max_rollouts": 150,
    "minibatch_size": 64,
    "updates_per_rollout": "auto",
    "anchor": "global",
    "advantage_norm": "mean",
    "step_weight": 1.0,
    "statistics": "opponent",
    "grouping": "stationary",
    "protocol": "adaptive",
    "context": "rebuilt",
}
GAMES = {
    "kuhn": {
        "env_id": "mage/KuhnPoker-Meta-v0",
        "max_completion_length": 4096,
        "env_kwargs": {"max_turns": 6, "invalid_penalty": 0.5},
    },
    "tictactoe": {
        "env_id": "mage/TicTacToe-Meta-v0",
        "max_completion_length": 3072,
        "env_kwargs": {"max_turns": 8, "invalid_penalty": 0.5},
    },
    "sokoban": {
        "env_id": "mage/Sokoban-Meta-v0",
        "max_completion_length": 4096,
        "max_rollouts": 300,
        "beta": 0.0,
        "env_kwargs": {"max_turns": 7, "invalid_penalty": 0.5, "boxes": 2, "size": 6},
    },
    "webshop": {
        "env_id": "mage/WebShop-Meta-v0",
        "groups_per_rollout": 8,
        "max_completion_length": 1024,
        "beta": 0.0,
        "max_prompt_length": 8192,
        "env_kwargs": {"max_turns": 12, "invalid_penalty": 0.5, "split": "train"},
    },
    "alfworld": {
        "env_id": "mage/ALFWorld-Meta-v0",
        "groups_per_rollout": 8,
        "max_completion_length": 1024,
        "beta": 0.0,
        "env_kwargs": {"invalid_penalty": 0.5, "split": "train"},
    },
}
TITLES = {
    "kuhn": "Kuhn Poker",
    "tictactoe": "Tic-Tac-Toe",
    "sokoban": "Sokoban",
    "webshop": "WebShop",
    "alfworld": "You are in a room of a house",
}
POOLS = {"kuhn": KUHN_POOL, "tictactoe": TICTACTOE_POOL}
META = {"num_generations": 8, "num_episodes": 3, "memory": "reflection"}
SINGLE = {"num_generations": 24, "num_episodes": 1, "memory": "none"}
METHODS = {
    "mage": {**META, "returns": "differential", "advantage": "gigpo"},
    "lamer": {**META, "returns": "cumulative", "advantage": "gigpo"},
    "gigpo": {**SINGLE, "returns": "single_episode", "advantage": "gigpo"},
    "grpo": {**SINGLE, "returns": "single_episode", "advantage": "grpo", "advantage_norm": "mean_std"},
}
NAMES = [f"{method}-{game}{protocol}" for method in METHODS for game in GAMES for protocol in ("", "-paper")]
RELATED = [f"{method}-{game}" for method in METHODS for game in ("controls", "encounters", "customer", "house")]
TRAINED = (*(f"mage-{game}" for game in GAMES), "lamer-kuhn", "gigpo-tictactoe", "grpo-webshop", "mage-kuhn-paper")
"""Each game, each method and each protocol once."""
C_LEN = {"kuhn": 2.0, "tictactoe": 2.0, "sokoban": 1.0, "webshop": 0.0, "alfworld": 0.0}
SMALL = [*TINY, *flags(groups_per_rollout=1, max_rollouts=1, updates_per_rollout=2)]


def run(*arguments: str) -> int:
    return main(list(arguments))


def error_line(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """Return the one line that the command ends with. Progress bars of a run that had begun may precede it."""
    assert main(list(arguments)) == 2
    written = capsys.readouterr().err.split("\n")
    lines = [line for line in written if line and "%|" not in line and "\r" not in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("mage: ")
    return lines[0]


def steps_done(folder: Path) -> int:
    """`global_step` of the newest checkpoint."""
    newest = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    return int(json.loads((newest / "trainer_state.json").read_text())["global_step"])


def test_the_presets_are_these() -> None:
    ablations = {
        name
        for ablation_presets in ABLATION_PRESETS.values()
        for name in ablation_presets.values()
        if name.startswith("ablation-")
    }
    assert list(PRESETS) == sorted([*NAMES, *RELATED, *ablations])


def test_an_ablation_differs_from_the_method_by_its_name_alone() -> None:
    for name, fields in PRESETS.items():
        method_fields = PRESETS.get(f"mage-{name.split('-')[1]}{'-paper' * name.endswith('-paper')}")
        if name.startswith("ablation-") and method_fields is not None:
            changed = {key: value for key, value in fields.items() if method_fields.get(key) != value}
            assert set(changed) <= {"output_dir", "returns", "opponents", "statistics", "grouping", "anchor"}, name
    assert PRESETS["ablation-tictactoe-skewed-pooled-non-stationary-paper"]["grouping"] == "non_stationary"
    assert PRESETS["ablation-tictactoe-single-episode"]["returns"] == "single_episode"


def test_a_file_changes_a_preset_and_flags_change_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("gamma_episode: 0.9\nlearning_rate: 2.0e-6\n")
    options = ("--preset", "mage-kuhn", "--config", str(file), "--learning_rate", "3e-6", "--dry-run")
    assert run(*options) == 0
    printed = yaml.safe_load(capsys.readouterr().out.split("--- ")[0])["settings"]
    assert (printed["gamma_episode"], printed["learning_rate"], printed["beta"]) == (0.9, 3e-6, 0.1)


@pytest.mark.parametrize("name", mark_params(NAMES))
def test_dry_run_prints_the_papers_settings_and_a_prompt_of_each_kind(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--preset", name, "--dry-run") == 0
    head, *prompts = capsys.readouterr().out.split("--- ")
    printed: dict[str, Any] = yaml.safe_load(head)
    method, game, *paper = name.split("-")
    expected = {**COMMON, "protocol": "paper" if paper else "adaptive"}
    expected = {**expected, **GAMES[game], **METHODS[method]}
    expected["per_device_train_batch_size"] = expected["groups_per_rollout"] * expected["num_generations"]
    assert {key: printed["settings"][key] for key in expected} == expected
    assert printed["environment"]["length_penalty"] == C_LEN[game]
    # ALFWorld's limit depends on the protocol alone, in presets as in suites.
    limit = (10 if paper else 30) if game == "alfworld" else GAMES[game]["env_kwargs"]["max_turns"]
    assert printed["environment"]["max_turns"] == limit
    assert (printed["opponents"] or {}) == pytest.approx(POOLS.get(game, {}))
    kinds = ["first play", "reflect", "later play"] if expected["num_episodes"] == 3 else ["first play"]
    assert [prompt.split(" prompt ---")[0] for prompt in prompts] == kinds
    for kind, prompt in zip(kinds, prompts, strict=True):
        assert f"# Task\n{TITLES[game]}" in prompt
        assert ("<remark>your plan</remark>" if kind == "reflect" else "<action>your action</action>") in prompt
        assert not any(opponent in prompt for opponent in printed["opponents"] or {})


@pytest.mark.parametrize(
    ("name", "first_line"),
    mark_params(
        [("mage-controls", "Keys left: "), ("mage-encounters", "one small game"), ("mage-customer", "for a customer")],
        step=3,
    ),
)
def test_a_preset_of_related_tasks_trains(
    name: str, first_line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--preset", name, "--dry-run") == 0
    head, *prompts = capsys.readouterr().out.split("--- ")
    settings = yaml.safe_load(head)["settings"]
    assert (settings["protocol"], settings["num_episodes"], settings["memory"]) == ("adaptive", 3, "reflection")
    assert first_line in prompts[0]
    assert any(f"Every {words} another " in prompts[0] for words in ("episode is", "errand is for"))
    out = tmp_path / "run"
    assert run("--preset", name, *SMALL, "--output_dir", str(out)) == 0
    assert "Finished after 2 updates" in capsys.readouterr().out


@pytest.mark.parametrize("name", mark_params(TRAINED, step=3))
def test_every_preset_trains_two_updates(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run("--preset", name, *SMALL, "--output_dir", str(out), "--save_steps", "2") == 0
    assert f"Finished after 2 updates; the model is in {out}." in capsys.readouterr().out
    assert steps_done(out) == 2
    weights_before, weights_after = load_file(out / "tiny" / "model.safetensors"), load_file(out / "model.safetensors")
    assert weights_before.keys() == weights_after.keys()
    assert any(not torch.equal(weights_before[key], weights_after[key]) for key in weights_before)
    assert all(bool(torch.isfinite(weight).all()) for weight in weights_after.values())
    generator, settings = load_generator(out)
    game = GAMES[name.split("-")[1]]
    assert settings == PlaySettings.load(out)
    assert (settings.env_id, settings.max_new_tokens) == (game["env_id"], 4)
    assert settings.env_kwargs["num_episodes"] == METHODS[name.split("-")[0]]["num_episodes"]
    (reply,) = generator.generate([Prompt((Message("user", "Your card: K."),), seed=(1, 0, 0, 0))])
    assert reply.error is None
    assert 1 <= len(reply.ids) <= 4


def test_a_run_resumes_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path), "--save_steps", "1")
    assert run(*common) == 0
    assert steps_done(tmp_path) == 2
    capsys.readouterr()
    assert "add --resume to continue" in error_line(capsys, common)
    assert run(*common, "--max_rollouts", "3", "--resume") == 0
    assert "Finished after 6 updates" in capsys.readouterr().out
    assert steps_done(tmp_path) == 6
    history = json.loads((tmp_path / "checkpoint-6" / "trainer_state.json").read_text())["log_history"]
    assert [entry["step"] for entry in history if "loss" in entry] == [1, 2, 3, 4, 5, 6]
    assert [entry["rollout"] for entry in history if "rollout" in entry] == [0, 1, 2]


def test_a_run_without_preset_needs_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*SMALL, "--output_dir", str(tmp_path / "run"), "--report_to", "none", "--save_strategy", "no")
    assert run(*arguments, "--opponents", "kuhn/rock") == 0
    assert "Finished after 2 updates" in capsys.readouterr().out


def test_help_names_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == run() == 0
    text = capsys.readouterr().out
    assert "(mage|lamer|gigpo|grpo)-(kuhn|tictactoe|sokoban|alfworld|webshop),eachalsowith-paper" in "".join(
        text.split()
    )
    joined = "".join(text.split())
    assert "-(fixed|balanced|skewed)-(opponent|pooled)-(stationary|non-stationary)-paper" in joined


DRY = ("--preset", "mage-kuhn", "--dry-run")
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("--preset", "mage-khun"), "unknown preset 'mage-khun'. Did you mean mage-kuhn"),
    (("--preset",), "--preset needs a value"),
    (("--preset", "mage-kuhn", "--model"), "--model needs a value"),
    (("--config",), "--config needs a value"),
    ((*DRY, "--gama_step", "1"), "unknown flag: 'gama_step'. Did you mean 'gamma_step'?"),
    ((*DRY, "--gamma_step", "abc"), "argument --gamma_step/--gamma-step: invalid float value: 'abc'"),
    ((*DRY, "--num_episodes", "many"), "invalid int value: 'many'"),
    ((*DRY, "--num_episodes", "0"), "num_episodes=0 must be >= 1."),
    ((*DRY, "stray"), "['stray']"),
    ((*DRY, "--backend", "x"), "choose one of: trl, cached, vllm_stream"),
    ((*DRY, "--backend", "cached", "--use_vllm", "true"), "set use_vllm=False"),
    ((*DRY, "--credit", "reward"), 'Use advantage="member_mean" or credit="episode"'),
    ((*DRY, "--env_kwargs", "{oops"), "env_kwargs is not JSON"),
    ((*DRY, "--env_kwargs", '{"max_turn": 6}'), "unexpected keyword argument 'max_turn'"),
    ((*DRY, "--protocol", "papr"), "choose one of: adaptive, paper"),
    ((*DRY, "--report_to", "wandbb"), "report_to='wandbb' is unknown. Did you mean 'wandb'?"),
    ((*DRY, "--memory", "x"), "choose one of: reflection, history, both, none"),
    ((*DRY, "--prompt_style", "x"), "choose one of: plain, paper, neutral, words"),
    ((*DRY, "--opponents", "kuhn/agressive"), "Did you mean 'kuhn/aggressive'?"),
    ((*DRY, "--opponents", '{"minimax": 1}'), "plays TicTacToe, not KuhnPoker"),
    ((*DRY, "--env_id", "mage/KuhnPokr-Meta-v0"), "KuhnPoker-Meta"),
    (("--config", "no-such-file.yaml"), "config file no-such-file.yaml does not exist"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in error_line(capsys, arguments)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1\nb: {", "is not valid YAML"),
        ("- a\n- b\n", "must contain 'field: value' lines"),
        ("model_name_or_path: x\ngama_step: 1\n", "unknown field in"),
        ("output_dir: x\n", "no model is named. Add --model NAME_OR_PATH, or --model tiny"),
        ("model_name_or_path: x\nupdates_per_rollout: many\n", "neither auto nor a whole number"),
        ("model_name_or_path: x\nadvantage: best\n", "choose one of: gigpo"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_one_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert says in error_line(capsys, ("--config", str(tmp_path / "run.yaml"), "--dry-run"))


def test_an_error_of_the_system_names_path_and_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_line(capsys, ("--config", str(tmp_path), "--dry-run"))
    assert f"{tmp_path}: Is a directory; name a file in it." in line
    (tmp_path / "file").touch()
    line = error_line(capsys, ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path / "file" / "run")))
    assert "Not a directory; name another path." in line


def test_resume_without_a_checkpoint_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_line(capsys, ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path), "--resume"))
    assert f"--resume finds no checkpoint in {tmp_path}. Set save_steps" in line


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path / "run"))
    assert str(tmp_path / "nowhere") in error_line(capsys, (*arguments, "--model", str(tmp_path / "nowhere")))
    error_line(capsys, (*arguments, "--model", "nobody/no-such-model"))


def test_a_model_without_chat_template_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = general_tiny(tmp_path / "plain")
    (tmp_path / "plain" / "chat_template.jinja").unlink()
    capsys.readouterr()
    arguments = ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path / "run"), "--model", folder)
    assert "has no chat template; use an instruction-tuned model" in error_line(capsys, arguments)


def test_a_trained_adapter_takes_a_seat(tmp_path: Path) -> None:
    adapter = ("--use_peft", "true", "--lora_r", "2", "--lora_target_modules", "q_proj", "v_proj")
    out = tmp_path / "run"
    assert run("--preset", "mage-kuhn", *SMALL, *adapter, "--updates_per_rollout", "1", "--output_dir", str(out)) == 0
    assert (out / "adapter_model.safetensors").exists()
    assert not (out / "model.safetensors").exists()
    env = gym.make("mage/KuhnPoker-v0", opponent=f"checkpoint:{out}", seat="second")
    observation, _ = env.reset(seed=1)
    assert "The opponent " in observation
