"""Models of a checkpoint in shards: the whole model's weights, and one line on what cannot be loaded."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from torch.distributed.checkpoint.state_dict_saver import save
from transformers import AutoModelForCausalLM

from mage_envs.cli.program import main as mage_bench
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import make_opponent
from mage_envs.opponents.llm.opponent import LanguageModelPolicy
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.weights import SHARDS, load_model
from mage_envs.trainer.runs.run_folder import finish_checkpoint
from tests.trainer.tiny_runs import save_model

FILE = "__0_0.distcp"


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    save_model(folder)
    PlaySettings("mage/KuhnPoker-Meta-v0", {"style": "words", "memory": "history"}, 1, constrained=True).save(folder)
    return folder


def in_shards(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Replaces a folder's weights by what accelerate writes under SHARDED_STATE_DICT; test_sharded.py has it do so."""
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        save({"model": weights}, checkpoint_id=folder / SHARDS)


@pytest.fixture
def checkpoint(model_folder: Path, tmp_path: Path) -> Path:
    """Return the model of `model_folder`, in shards."""
    folder = tmp_path / "checkpoint-2"
    shutil.copytree(model_folder, folder)
    in_shards(folder, AutoModelForCausalLM.from_pretrained(model_folder).state_dict())
    return folder


def same(left_folder: Path, right_folder: Path) -> bool:
    ours, theirs = load_model(left_folder).state_dict(), load_model(right_folder).state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_shards_are_the_whole_model_and_play_as_it_does(
    model_folder: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert same(checkpoint, model_folder)
    assert isinstance(make_opponent(f"checkpoint:{checkpoint}", KuhnPoker()), LanguageModelPolicy)
    reports = []
    for folder in (model_folder, checkpoint):
        words = ["eval", f"checkpoint:{folder}", "--rows", "2", "--opponents", "kuhn/nash", "--format", "tsv"]
        assert mage_bench(words) == 0
        reports.append([row.split("\t")[:6] for row in capsys.readouterr().out.splitlines() if "seconds" not in row])
    assert reports[0] == reports[1] != []


def test_an_adapter_in_shards_goes_onto_its_model(model_folder: Path, tmp_path: Path) -> None:
    adapter = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder), adapter)
    for folder in (tmp_path / "adapter", tmp_path / "checkpoint-2"):
        model.save_pretrained(folder)
    in_shards(tmp_path / "checkpoint-2", get_peft_model_state_dict(model))
    assert same(tmp_path / "checkpoint-2", tmp_path / "adapter")
    assert len(load_model(tmp_path / "adapter").state_dict()) > len(load_model(model_folder).state_dict())


def truncate_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    """Fill a file with zeros, as some file systems do if the power fails during a write."""
    file.write_bytes(bytes(file.stat().st_size))


def widen(file: Path) -> None:
    file.write_text(file.read_text().replace('"intermediate_size": 64', '"intermediate_size": 96'))


def rename(file: Path) -> None:
    file.write_text(file.read_text().replace('"model_type": "qwen3"', '"model_type": "gpt2"'))


@pytest.mark.parametrize(
    ("harm", "name", "message"),
    [
        (Path.unlink, f"{SHARDS}/{FILE}", rf"/{SHARDS}/{FILE} is missing\)"),
        (truncate_file, f"{SHARDS}/{FILE}", rf"/{SHARDS}/{FILE} has \d+ bytes instead of \d+\)"),
        (empty, f"{SHARDS}/{FILE}", f"/{SHARDS} is damaged: "),
        (Path.unlink, f"{SHARDS}/.metadata", rf"/{SHARDS}/\.metadata cannot be read: .* No such file"),
        (truncate_file, f"{SHARDS}/.metadata", rf"/{SHARDS}/\.metadata cannot be read: "),
        (Path.unlink, "config.json", "it has neither config.json nor adapter_config.json"),
        (truncate_file, "config.json", "config.json cannot be read as JSON"),
        (widen, "config.json", r"another model: model\.layers\.0\.mlp\.down_proj\.weight has another shape\)"),
        (rename, "config.json", r"another model: transformer\.h\.0\.attn\.c_attn\.bias is missing\)"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(
    checkpoint: Path, harm: Callable[[Path], None], name: str, message: str
) -> None:
    harm(checkpoint / name)
    with pytest.raises(ValueError, match=message) as raised:
        load_model(checkpoint)
    assert str(raised.value).startswith(f"The model in {checkpoint} cannot be loaded (")
    assert str(raised.value).endswith("). Copy the whole folder again, or use another model.")
    assert "\n" not in str(raised.value)


def flip(file: Path) -> None:
    """One bit, in the middle of a weight: any reader takes it."""
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("shards", [False, True])
def test_a_flipped_bit_in_a_checkpoint_is_one_line(
    model_folder: Path, checkpoint: Path, shards: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft, folder = tmp_path / "draft", tmp_path / "checkpoint-7"
    shutil.copytree(checkpoint if shards else model_folder, draft)
    finish_checkpoint(draft, folder)
    assert same(folder, model_folder)
    name = f"{SHARDS}/{FILE}" if shards else "model.safetensors"
    flip(folder / name)
    message = f"The model in {folder} cannot be loaded ({name} is not what was written). Copy the whole folder"
    with pytest.raises(ValueError, match=re.escape(message)):
        make_opponent(f"checkpoint:{folder}", KuhnPoker())
    capsys.readouterr()
    assert mage_bench(["eval", str(folder), "--rows", "1"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"mage: {message}")
    assert line.count("\n") == 1


def test_a_whole_model_that_is_damaged_is_one_line(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model_folder, tmp_path / "cut")
    truncate_file(tmp_path / "cut" / "model.safetensors")
    assert mage_bench(["eval", str(tmp_path / "cut"), "--rows", "1"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"mage: The tokenizer in {tmp_path / 'cut'} cannot be loaded (")
    assert line.count("\n") == 1
