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
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mage_envs.files.bounded import parse_json, read_inside
from mage_envs.files.manifest import MANIFEST, verify_checkpoint

SHARDS = "pytorch_model_fsdp_0"
"""Folder of a checkpoint's weights under FSDP's SHARDED_STATE_DICT, in files of torch.distributed.checkpoint."""
_ABOVE = "model."
"""Prefix of each weight's name in the shards."""
ADAPTER = "adapter_config.json"
_CONFIGS = ("config.json", ADAPTER)
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


def base_of(folder: Path) -> Path | None:
    """Return the folder of the model that an adapter in `folder` belongs to, or None if the folder holds no adapter.

    Raises ValueError if the base is neither a folder nor a model that the hub or its cache returns.
    """
    if (folder / "config.json").is_file() or not (folder / ADAPTER).is_file():
        return None
    name = parse_json(read_inside(folder, ADAPTER)).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{folder / ADAPTER} names no base_model_name_or_path. Set it to the folder of the base model."
        )
    # A relative path is one from the folder of the run that saved the adapter, or from here.
    base = next((path for path in (Path(name), folder / name) if path.is_dir()), None)
    try:
        return local_folder(name) if base is None else base.resolve()
    except ValueError as error:
        reason = str(error).partition(". Pass")[0]
        raise ValueError(
            f"The adapter in {folder} needs its base model: {reason}. Set base_model_name_or_path in {ADAPTER} to the "
            f"base's folder."
        ) from error


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer in a folder, or that of the base model if an adapter's folder has none.

    Raises ValueError if it cannot be loaded.
    """
    source = folder if (folder / "tokenizer_config.json").is_file() else base_of(folder) or folder
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source)
    # A damaged file may raise any error of several libraries.
    except Exception as error:
        reason = " ".join(str(error).split()).removesuffix(".")[:300]
        raise ValueError(
            f"The tokenizer in {source} cannot be loaded ({reason}). Copy the whole folder again, or use another model."
        ) from error
    return tokenizer


def positions_of(folder: Path) -> int | None:
    """Return the number of positions of the model in a folder, under any name in its config; None for no limit."""
    try:
        config: Any = AutoConfig.from_pretrained(base_of(folder) or folder)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")[:300]
        raise ValueError(f"The config of the model in {folder} cannot be read ({reason}).") from error
    positions: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return positions


def generation_config(folder: Path) -> GenerationConfig | None:
    """Return the generation config of the model in a folder, or None if it has none."""
    source = base_of(folder) or folder
    return GenerationConfig.from_pretrained(source) if (source / "generation_config.json").is_file() else None


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ValueError if the tokenizer has ids without an embedding."""
    embeddings: Any = model.get_input_embeddings()
    count: int = embeddings.weight.shape[0]
    if len(tokenizer) > count:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} ids and the model {count} embeddings, so a prompt could not be read. "
            f"Use the tokenizer of the model, or resize the embeddings (model.resize_token_embeddings) and save both."
        )


def load_adapter(folder: Path, **options: Any) -> Any:
    """Load the adapter in a folder onto its base model, so that it can be trained further (`peft.PeftModel`).

    Args:
        folder: Folder of the adapter.
        options: Options of the base model's `from_pretrained`.
    """
    # Imported here, because only adapters need PEFT.
    from peft import PeftModel

    auto: Any = AutoModelForCausalLM
    try:
        return PeftModel.from_pretrained(auto.from_pretrained(base_of(folder), **options), folder, is_trainable=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")[:300]
        raise ValueError(
            f"The adapter in {folder} cannot be loaded ({reason}). Copy the whole folder again."
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
                kinds = ", ".join(getattr(model.config, "architectures", None) or ("no architecture",))
                raise ValueError(
                    f"it is no causal language model, or its config ({kinds}) describes another model: {names[0]} "
                    f"{wrong}"
                )
    # An assertion or a lookup fails in a config whose numbers contradict each other.
    except (
        OSError,
        ValueError,
        RuntimeError,
        SafetensorError,
        StrictDataclassError,
        AssertionError,
        LookupError,
        TypeError,
    ) as error:
        # transformers lists all classes that it knows.
        reason = " ".join(str(error).split()).partition(" Model type should be one of")[0].removesuffix(".")
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
    base, sharded = base_of(folder), (folder / SHARDS).is_dir()
    if base is None and not sharded:
        model, told = auto.from_pretrained(folder, **wishes)
        return model, told
    weights = _read(folder / SHARDS) if sharded else {}
    if base is None:
        config = AutoConfig.from_pretrained(folder)
        kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        model, told = kind.from_pretrained(None, config=config, state_dict=weights, **wishes)
        return model, told
    # Imported here, because only adapters need PEFT.
    from peft import PeftConfig

    model, told = auto.from_pretrained(base, **wishes)
    if any(told[kind] for kind in _WRONG):
        return model, told
    source: dict[str, Any] = {"peft_model_id": str(folder)}
    if sharded:
        source = {"peft_config": PeftConfig.from_pretrained(str(folder)), "adapter_state_dict": weights}
    return model, vars(model.load_adapter(**source, ignore_mismatched_sizes=True))


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
