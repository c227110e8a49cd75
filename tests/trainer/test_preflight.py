"""What cannot be trained is told before anything is loaded, in one line with the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainer.__main__ import main
from trainer.preflight import check_present

CHATS: dict[str, Any] = {"chat_template": "{{ messages }}", "eos_token": "<end>"}
WORDS: dict[str, Any] = {"model": {"vocab": {"a": 0, "<end>": 1}}, "added_tokens": []}


def model(folder: Path, told: dict[str, Any], words: dict[str, Any]) -> str:
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    (folder / "tokenizer.json").write_text(json.dumps(words))
    return str(folder)


@pytest.mark.parametrize(
    ("told", "words", "says"),
    [
        (CHATS, WORDS, None),
        ({"eos_token": "<end>"}, WORDS, "has no chat template; use an instruction-tuned model"),
        ({"chat_template": "x"}, WORDS, "names no eos_token, so that no reply would end"),
        (CHATS, {"model": {"vocab": {"a": 0}}}, "lacks its end token '<end>'"),
        ({**CHATS, "eos_token": {"content": "<end>"}}, {"added_tokens": [{"content": "<end>"}]}, None),
    ],
)
def test_a_model_must_chat_and_end(
    told: dict[str, Any], words: dict[str, Any], says: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--preset", "mage-kuhn", "--dry-run", "--model", model(tmp_path, told, words))
    assert main(list(chosen)) == (2 if says else 0)
    assert (says or "") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "tiny", "--num_generations", "3"), "num_generations=3 does not divide the 8 meta-episodes"),
        (("--preset", "mage-kuhn", "--groups_per_rollout", "0"), "groups_per_rollout=0 plays nothing; use at least 1"),
        (("--preset", "mage-kuhn", "--num_generations", "1"), "is a group with nobody to compare with; use at least 2"),
        (("--preset", "mage-sokoban", "--population", "league"), "has none; use population=fixed"),
        (("--preset", "mage-kuhn", "--eval_panel", "tictactoe-paper"), "is played in mage/TicTacToe-Meta-v0, not in"),
        (("--preset", "mage-kuhn", "--eval_panel", "kuhn-papr"), "Unknown panel 'kuhn-papr'. Did you mean 'kuhn-paper"),
        (("--preset", "mage-kuhn", "--early_stop", "2"), "early_stop needs an eval_panel"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def kept(cache: Path, *files: str) -> None:
    """The hub's cache with a model of which there are these files."""
    folder = cache / "models--some--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    for name in files:
        (folder / "snapshots" / ("0" * 40) / name).write_text("{}")


@pytest.mark.parametrize(
    ("name", "files", "says"),
    [
        ("some/model", (), "some/model is no folder here and it is not in the hub's cache, and HF_HUB_OFFLINE forbids"),
        ("some/model", ("config.json",), "and its weights are not in the hub's cache"),
        ("some/model", ("config.json", "model.safetensors"), None),
        ("runs/no/such", (), "runs/no/such is neither a folder nor a name that the hub could have"),
        ("refs", (), "the folder refs holds no model: config.json or weights (*.safetensors) are missing"),
    ],
)
def test_a_model_that_is_not_here_is_told_before_anything_is_loaded(
    name: str,
    files: tuple[str, ...],
    says: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = tmp_path / "cache"
    kept(cache, *files)
    monkeypatch.chdir(cache / "models--some--model")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if says is None:
        check_present(name)
        return
    assert main(["--preset", "mage-kuhn", "--model", name, "--output_dir", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "run").exists()
    assert main(["--preset", "mage-kuhn", "--model", name, "--dry-run"]) == 0  # a plan may be made anywhere
