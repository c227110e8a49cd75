"""Loading the weights in a model's folder: whole, an adapter of another model, or shards of a training checkpoint."""

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

from mage_envs.files.manifest import MANIFEST, verify_checkpoint

SHARDS = "pytorch_model_fsdp_0"
"""Folder of a checkpoint's weights under FSDP's SHARDED_STATE_DICT, in files of torch.distributed.checkpoint."""
_ABOVE = "model."
"""Prefix of each weight's name in the shards."""
_CONFIGS = ("config.json", "adapter_config.json")
_WRONG = {"missing_keys": "is missing", "mismatched_keys": "has another shape", "unexpected_keys": "is too much"}


def local_folder(model: str | Path) -> Path:
    """Return the folder of a model: its own, or the one in the hub's cache, into which it is downloaded if missing.

    Raises ValueError if there is no such model.
    """
    # Not at the top: reading a local folder needs no client of the hub.
    import httpx
    from huggingface_hub import errors, snapshot_download

    if Path(model).is_dir():
        return Path(model)
    try:
        return Path(snapshot_download(str(model), allow_patterns=["*.json", "*.jinja", "*.safetensors", "*.model"]))
    except (httpx.HTTPError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        raise ValueError(
            f"{model} is neither a folder nor a model that the hub or its cache returns ({reason}). Pass the folder of "
            f"a saved model, or run: hf download {model}"
        ) from error


def load_model(folder: Path) -> PreTrainedModel:
    """Load the model in a folder, from any form of weights, in this process alone.

    The files of a training checkpoint are first compared with its manifest.

    Raises ValueError if the weights cannot be read or belong to another model. The list of shards is a pickle, which
    can run code: load only shards that you trust.
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
            f"The model in {folder} cannot be loaded ({reason}). Copy the whole folder again, or use another model."
        ) from error
    loaded: PreTrainedModel = model
    return loaded


def _load(folder: Path) -> tuple[Any, Mapping[str, Collection[str | tuple[str, ...]]]]:
    """Return the model, and the weights that transformers initialised or ignored."""
    if not any((folder / name).exists() for name in _CONFIGS):
        raise ValueError(
            f"it has neither {' nor '.join(_CONFIGS)}; copy it from the trained model, with the tokenizer's files"
        )
    if (folder / MANIFEST).exists() and (changed := verify_checkpoint(folder, "*model*")) is not None:
        raise ValueError(changed)
    auto: Any = AutoModelForCausalLM
    # Without these, transformers raises its own error for a mismatch and only warns about missing weights.
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
    # Imported here, because only adapters need PEFT.
    from peft import PeftConfig

    adapter = PeftConfig.from_pretrained(str(folder))
    model = auto.from_pretrained(adapter.base_model_name_or_path)
    told = model.load_adapter(peft_config=adapter, adapter_state_dict=weights, ignore_mismatched_sizes=True)
    return model, vars(told)


def _read(place: Path) -> dict[str, torch.Tensor]:
    """Return the weights in shards, by their names in the model."""
    reader = FileSystemReader(place)
    try:
        about = reader.read_metadata()
    except Exception as error:
        # A damaged pickle may raise any exception.
        raise ValueError(f"{place / '.metadata'} cannot be read: {error}") from error
    for part in about.storage_data.values():
        file, needed = place / part.relative_path, part.offset + part.length
        # Checked before loading, so that the error names the file and its size.
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
            # Intended: one process reads all shards.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load(weights, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        told, _ = error.failures[0]
        raise ValueError(f"{place} is damaged: {told}".partition(". ")[0]) from error
    return {name.removeprefix(_ABOVE): weight for name, weight in weights.items()}
