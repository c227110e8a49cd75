"""A model's folder is data: nothing in it is executed, unpickled or downloaded, and a bad one is one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mage_envs.cli.program import main as mage_bench
from mage_envs.trainer.backends.model_folder import BadModel, load_tokenizer, offline
from mage_envs.trainer.backends.shards import read_shards
from mage_envs.trainer.backends.weights import SHARDS, load_model
from tests.packages import mark_params
from tests.trainer.tiny_runs import save_model

PANEL = ("--env", "mage/KuhnPoker-Meta-v0", "--no-baselines", "--opponents", "kuhn/nash", "--rows", "1")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "model"
    save_model(folder)
    return folder


@pytest.fixture
def model(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


class Call:
    """An object whose pickle calls `os.mkdir` when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize("keeps_weights", [True, False])
def test_a_list_of_shards_is_not_unpickled(model: Path, keeps_weights: bool, tmp_path: Path) -> None:
    if not keeps_weights:
        (model / "model.safetensors").unlink()
    (model / SHARDS).mkdir()
    (model / SHARDS / ".metadata").write_bytes(pickle.dumps(Call(tmp_path / "PWNED")))
    with pytest.raises(ValueError, match=r"it contains posix\.mkdir, which no list of shards has"):
        load_model(model)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    "value", [torch.Size, torch.serialization.load, os.path.join, torch.nn.Linear, getattr, eval, print, BadModel]
)
def test_only_the_classes_of_a_list_of_shards_are_created(value: Any, tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(pickle.dumps(value))
    with pytest.raises(ValueError, match=r"cannot be read: it contains (a type|\w+\.[\w.]+, which no list)"):
        read_shards(tmp_path)


def test_a_list_of_shards_names_no_file_outside(model: Path, tmp_path: Path) -> None:
    import warnings

    from torch.distributed.checkpoint import save
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        save({"model": {"a": torch.zeros(3)}}, checkpoint_id=model / SHARDS)
    about = FileSystemReader(model / SHARDS).read_metadata()
    (shard,) = (model / SHARDS).glob("*.distcp")
    shutil.move(shard, tmp_path / "outside")
    for part in about.storage_data.values():
        part.relative_path = "../../outside"
    (model / SHARDS / ".metadata").write_bytes(pickle.dumps(about))
    with pytest.raises(ValueError, match="outside the folder"):
        read_shards(model / SHARDS)


def test_pickled_weights_are_refused(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Call(tmp_path / "PWNED")))
    with pytest.raises(ValueError, match="no weights in safetensors files"):
        load_model(model)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("words", [("eval", "{model}"), ("eval", "hf:{model},max_tokens=4"), ("exploit", "{model}")])
def test_the_code_of_a_model_is_not_executed(
    words: tuple[str, ...], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(
        model / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
    )
    (model / "mage.json").write_text(json.dumps({"env_id": "mage/KuhnPoker-Meta-v0"}))
    (model / "evil.py").write_text(f"open({str(tmp_path / 'PWNED')!r}, 'w')\n")
    # transformers asks on the terminal if it is allowed to.
    monkeypatch.setattr("builtins.input", lambda *_: "yes")
    arguments = [word.format(model=model) for word in words]
    assert mage_bench([*arguments, *(PANEL if words[0] == "eval" else ())]) == 2
    assert not (tmp_path / "PWNED").exists()


def link_out(model: Path) -> None:
    shutil.move(model / "model.safetensors", model.parent / "elsewhere")
    (model / "model.safetensors").symlink_to(model.parent / "elsewhere")


def add_index(model: Path) -> None:
    shutil.move(model / "model.safetensors", model.parent / "elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def add_pipe(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    os.mkfifo(model / "tokenizer.json")


def add_adapter(model: Path) -> None:
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "someone/else", "megatron_core": "os"}
    (model / "adapter_config.json").write_text(json.dumps(adapter))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (link_out, "is a link to .*elsewhere', outside the folder; copy the file instead"),
        (add_index, r"names '\.\./elsewhere\.safetensors', which is not a file of the folder"),
        (add_pipe, "is not a regular file"),
        (add_adapter, "sets megatron_core"),
        (lambda m: change(m / "config.json", attn_implementation="evil/kernel"), "names a file or code elsewhere"),
        (lambda m: change(m / "config.json", _attn_implementation="evil/kernel"), "names a file or code elsewhere"),
        (lambda m: change(m / "config.json", num_hidden_layers=10**9), "num_hidden_layers=1000000000 is out of range"),
        (
            lambda m: change(m / "config.json", num_hidden_layers=9000, layer_types=None),
            "of 9000 layers, and there are",
        ),
        (lambda m: change(m / "config.json", vocab_size=2**40), r"another model: of \d+ numbers"),
        (lambda m: change(m / "config.json", hidden_size=2**24), r"another model: of \d+ numbers"),
    ],
)
def test_a_forged_folder_is_one_line(harm: Callable[[Path], None], reason: str, model: Path) -> None:
    harm(model)
    with pytest.raises(ValueError, match=reason) as raised:
        load_model(model)
    assert "\n" not in str(raised.value)


def test_the_base_of_an_adapter_is_not_downloaded(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    add_adapter(model)
    change(model / "adapter_config.json", megatron_core="megatron.core")
    (model / "model.safetensors").rename(model / "adapter_model.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_, **__: pytest.fail("a request was sent"))
    with pytest.raises(ValueError, match="someone/else is neither a folder nor a model"):
        load_model(model)


def test_requests_are_errors_while_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with offline():
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()


def error_of(load: Callable[[Path], Any], model: Path) -> str | None:
    """Return the message of the ValueError, or None without an error. Any other error passes."""
    try:
        load(model)
    except ValueError as error:
        return str(error)
    return None


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "less a byte": lambda content: content[:-1],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "list": lambda content: b"[1, 2]",
    "null": lambda content: b"null",
    "text": lambda content: b'"text"',
    "no fields": lambda content: b"{}",
    "deep": lambda content: b"[" * 100_000,
    "not utf-8": lambda content: b'{"a": "\xff"}',
    "huge header": lambda content: struct.pack("<Q", 2**62) + content[8:],
    "huge number": lambda content: b'{"num_hidden_layers": 1e400, "vocab_size": -5}',
    "huge shape": lambda content: (
        struct.pack("<Q", 68) + b'{"model.norm.weight":{"dtype":"F32","shape":[4611686018427387904],'.ljust(68)
    ),
}


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_folder_is_one_line_or_plays(harm: str, file: str, model: Path) -> None:
    (model / file).write_bytes(HARMS[harm]((model / file).read_bytes()))
    for load in (load_model, load_tokenizer):
        message = error_of(load, model)
        assert message is None or ("\n" not in message and str(model) in message)


@pytest.mark.parametrize("file", mark_params(["config.json", "tokenizer_config.json", "tokenizer.json"], step=3))
def test_fields_of_other_types_are_one_line(file: str, sound: Path, tmp_path: Path) -> None:
    for number, name in enumerate(json.loads((sound / file).read_text())):
        for value in (None, -1, "x", [], {"a": []}, 2**70):
            model = tmp_path / f"{number}"
            shutil.copytree(sound, model, dirs_exist_ok=True)
            change(model / file, **{name: value})
            for load in (load_model, load_tokenizer):
                assert "\n" not in (error_of(load, model) or ""), (name, value)
