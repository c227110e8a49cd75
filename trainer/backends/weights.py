"""Loading the weights in a model's folder: whole, an adapter of another model, or shards of a training checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedModel

from mage_envs.files.manifest import MANIFEST, verify_checkpoint
from mage_envs.loading.imports import naming_file
from trainer.backends.model_folder import (
    CONFIGS,
    MAX_REASON,
    WEIGHTS_TRUST,
    check_model_folder,
    check_size,
    load_config,
    offline,
    stored_sizes,
)
from trainer.backends.shards import read_shards

SHARDS = "pytorch_model_fsdp_0"
"""Folder of a checkpoint's weights under FSDP's SHARDED_STATE_DICT, in files of torch.distributed.checkpoint."""
_ADAPTER = "adapter_model.safetensors"
_WRONG = {"missing_keys": "is missing", "mismatched_keys": "has another shape", "unexpected_keys": "is too much"}


def local_folder(model: str | Path) -> Path:
    """Return the folder of a model: its own, or the one in the hub's cache.

    A model that the user named is downloaded into the cache if it is missing, but not one that a file names.

    Raises ValueError if there is no such model.
    """
    # Not at the top: reading a local folder needs no client of the hub.
    import httpx
    from huggingface_hub import errors, snapshot_download

    if Path(model).is_dir():
        return Path(model)
    try:
        files = ["*.json", "*.jinja", "*.safetensors", "*.model"]
        return Path(snapshot_download(str(model), allow_patterns=files, local_files_only=naming_file() is not None))
    except (httpx.HTTPError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        raise ValueError(
            f"{model} is neither a folder nor a model that the hub or its cache returns ({reason}). Pass the folder of "
            f"a saved model, or run: hf download {model}"
        ) from error


def load_model(folder: Path) -> PreTrainedModel:
    """Load the model in a folder, from any form of weights, in this process alone.

    The files of a training checkpoint are first compared with its manifest.

    Nothing in the folder is executed or unpickled, and nothing is downloaded.

    Raises ValueError if the weights cannot be read or belong to another model.
    """
    try:
        with offline():
            model, told = _load(folder)
        for kind, wrong in _WRONG.items():
            names = sorted(key if isinstance(key, str) else key[0] for key in told[kind])
            if names:
                raise ValueError(f"its config describes another model: {names[0]} {wrong}")
    except Exception as error:
        # A field of a forged config can have any type and value, so that transformers and torch raise any error.
        reason = " ".join(str(error).split())[:MAX_REASON].removesuffix(".") or type(error).__name__
        raise ValueError(
            f"The model in {folder} cannot be loaded ({reason}). Copy the whole folder again, or use another model."
        ) from error
    loaded: PreTrainedModel = model
    return loaded


def _load(folder: Path) -> tuple[Any, Mapping[str, Collection[str | tuple[str, ...]]]]:
    """Return the model, and the weights that transformers initialised or ignored."""
    if not any((folder / name).exists() for name in CONFIGS):
        raise ValueError(
            f"it has neither {' nor '.join(CONFIGS)}; copy it from the trained model, with the tokenizer's files"
        )
    if (folder / MANIFEST).exists() and (changed := verify_checkpoint(folder, "*model*")) is not None:
        raise ValueError(changed)
    auto: Any = AutoModelForCausalLM
    # Without these, transformers raises its own error for a mismatch and only warns about missing weights.
    wishes = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    if (folder / CONFIGS[1]).exists():
        return _load_adapter(folder)
    config = load_config(folder)
    if not (folder / SHARDS).is_dir():
        check_size(config, stored_sizes(folder))
        model, told = auto.from_pretrained(folder, config=config, **wishes, **WEIGHTS_TRUST)
        return model, told
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    weights = read_shards(folder / SHARDS)
    check_size(config, [weight.nbytes for weight in weights.values()])
    model, told = kind.from_pretrained(None, config=config, state_dict=weights, **wishes)
    return model, told


def _load_adapter(folder: Path) -> tuple[Any, Mapping[str, Collection[str | tuple[str, ...]]]]:
    """Return a model with the adapter in a folder, and the weights of the adapter that did not fit."""
    # Imported here, because only adapters need PEFT.
    from peft import PeftConfig

    check_model_folder(folder)
    weights = read_shards(folder / SHARDS) if (folder / SHARDS).is_dir() else load_file(folder / _ADAPTER)
    adapter = PeftConfig.from_pretrained(str(folder))
    base = Path(str(adapter.base_model_name_or_path))
    # The name comes from a file, so that it may be in the hub's cache, but is not downloaded.
    model: Any = load_model(base if base.is_dir() else local_folder(str(base)))
    told = model.load_adapter(peft_config=adapter, adapter_state_dict=weights, ignore_mismatched_sizes=True)
    return model, vars(told)
