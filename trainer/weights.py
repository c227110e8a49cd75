"""The weights in a model's folder: whole, an adapter of another model, or in the shards of a training checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM, PreTrainedModel

from trainer.manifest import MANIFEST, fault

SHARDS = "pytorch_model_fsdp_0"
"""Where FSDP leaves the weights of a checkpoint under SHARDED_STATE_DICT: files of torch.distributed.checkpoint."""
_ABOVE = "model."
"""Before the name of each weight there."""
_CONFIGS = ("config.json", "adapter_config.json")
_WRONG = {"missing_keys": "is missing", "mismatched_keys": "has another shape", "unexpected_keys": "is too much"}


def load_model(folder: Path) -> PreTrainedModel:
    """The model in a folder, whatever its weights lie in, put together in this process alone; those of a training
    checkpoint are read once more before, and must be what was written.

    Raises ValueError where they cannot be read, or are another model's. Shards are listed in a pickle, which can run
    code: load those that you trust.
    """
    try:
        model, told = _load(folder)
        for kind, wrong in _WRONG.items():
            names = sorted(key if isinstance(key, str) else key[0] for key in told[kind])
            if names:
                raise ValueError(f"its config describes another model: {names[0]} {wrong}")
    except (OSError, ValueError, RuntimeError, SafetensorError, StrictDataclassError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise ValueError(
            f"The model in {folder} cannot be loaded ({reason}); copy it whole again, or take another one."
        ) from error
    loaded: PreTrainedModel = model
    return loaded


def _load(folder: Path) -> tuple[Any, Mapping[str, Collection[str | tuple[str, ...]]]]:
    """The model, and the weights that transformers had to guess or to leave out."""
    if not any((folder / name).exists() for name in _CONFIGS):
        raise ValueError(
            f"it has neither {' nor '.join(_CONFIGS)}; the model that was trained has it, and the tokenizer's files"
        )
    if (folder / MANIFEST).exists() and (changed := fault(folder, "*model*")) is not None:
        raise ValueError(changed)
    auto: Any = AutoModelForCausalLM
    wishes = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    if not (folder / SHARDS).is_dir():
        model, told = auto.from_pretrained(folder, **wishes)
        return model, told
    weights = _read(folder / SHARDS)
    if not (folder / "adapter_config.json").exists():
        config = AutoConfig.from_pretrained(folder)
        kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        model, told = kind.from_pretrained(None, config=config, state_dict=weights, **wishes)
        return model, told
    from peft import PeftConfig

    adapter = PeftConfig.from_pretrained(str(folder))
    model = auto.from_pretrained(adapter.base_model_name_or_path)
    told = model.load_adapter(peft_config=adapter, adapter_state_dict=weights, ignore_mismatched_sizes=True)
    return model, vars(told)


def _read(place: Path) -> dict[str, torch.Tensor]:
    """The weights in shards, by their names in the model."""
    reader = FileSystemReader(place)
    try:
        about = reader.read_metadata()
    except Exception as error:  # what a damaged pickle raises may be anything
        raise ValueError(f"{place / '.metadata'} cannot be read: {error}") from error
    for part in about.storage_data.values():
        file, needed = place / part.relative_path, part.offset + part.length
        held = file.stat().st_size if file.is_file() else 0
        if held < needed:
            raise ValueError(f"{file} has {held} bytes instead of {needed}" if held else f"{file} is missing")
    weights = {
        name: torch.empty(one.size, dtype=one.properties.dtype)
        for name, one in about.state_dict_metadata.items()
        if isinstance(one, TensorStorageMetadata)
    }
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # what is wanted here
            load(weights, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        told, _ = error.failures[0]
        raise ValueError(f"{place} is damaged: {told}".partition(". ")[0]) from error
    return {name.removeprefix(_ABOVE): weight for name, weight in weights.items()}
