"""Loading the weights in a model's folder: whole, an adapter of another model, or shards of a training checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mage_envs.files.manifest import MANIFEST, verify_checkpoint
from mage_envs.loading.imports import naming_file
from mage_envs.trainer.backends import model_folder
from mage_envs.trainer.backends.model_folder import (
    CONFIGS,
    MAX_REASON,
    WEIGHTS_TRUST,
    BadModel,
    check_model_folder,
    check_size,
    load_config,
    offline,
    read_model_json,
    read_weight_sizes,
)
from mage_envs.trainer.backends.packaged import get_packaged_folder
from mage_envs.trainer.backends.shards import read_shards

SHARDS = "pytorch_model_fsdp_0"
"""Folder of a checkpoint's weights under FSDP's SHARDED_STATE_DICT, in files of torch.distributed.checkpoint."""
ADAPTER = CONFIGS[1]
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_WRONG = {"missing_keys": "is missing", "mismatched_keys": "has another shape", "unexpected_keys": "is too much"}


def local_folder(model: str | Path) -> Path:
    """Return the folder of a model: its own, that of a packaged model, or the one in the hub's cache.

    A model that the user named is downloaded into the cache if it is missing, but not one that a file names.

    Raises ValueError if there is no such model.
    """
    # Not at the top: reading a local folder needs no client of the hub.
    import httpx
    from huggingface_hub import errors, snapshot_download

    if Path(model).is_dir():
        return Path(model)
    if (packaged := get_packaged_folder(str(model))) is not None:
        return packaged
    try:
        files = ["*.json", "*.jinja", "*.safetensors", "*.model"]
        return Path(snapshot_download(str(model), allow_patterns=files, local_files_only=naming_file() is not None))
    except (httpx.HTTPError, errors.HFValidationError, errors.LocalEntryNotFoundError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        raise ValueError(
            f"{model} is neither a folder nor a model that the hub or its cache returns ({reason}). Pass the folder of "
            f"a saved model, or run: hf download {model}"
        ) from error


def base_of(folder: Path) -> Path | None:
    """Return the folder of the model that an adapter in `folder` belongs to, or None if the folder holds no adapter.

    The name of the base comes from a file, so that it may be in the hub's cache, but is not downloaded.

    Raises ValueError if the base is neither a folder nor in the hub's cache.
    """
    # Some programs save the config of the base model beside an adapter; weights of a whole model are no adapter's.
    if not (folder / ADAPTER).is_file() or any(folder.glob("model*.safetensors")):
        return None
    name = read_model_json(folder, ADAPTER).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{folder / ADAPTER} names no base_model_name_or_path. Set it to the folder of the base model."
        )
    # A relative path is one from the folder of the run that saved the adapter, or from here.
    base = next((path for path in (Path(name), folder / name) if path.is_dir()), None)
    try:
        with offline():
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
    tokenizer: PreTrainedTokenizerBase = model_folder.load_tokenizer(source)
    return tokenizer


def positions_of(folder: Path) -> int | None:
    """Return the number of positions of the model in a folder, under any name in its config; None for no limit."""
    try:
        positions = getattr(load_config(base_of(folder) or folder).get_text_config(), "max_position_embeddings", None)
    # A field of a forged config can have any type, so that transformers raises any error.
    except Exception as error:
        reason = " ".join(str(error).split())[:MAX_REASON].removesuffix(".") or type(error).__name__
        raise ValueError(f"The config of the model in {folder} cannot be read ({reason}).") from error
    if not (positions is None or isinstance(positions, int)):
        raise BadModel(f"max_position_embeddings={positions!r} of the config in {folder} must be a number")
    return positions


def generation_config(folder: Path) -> GenerationConfig | None:
    """Return the generation config of the model in a folder, or None if it has none."""
    source = base_of(folder) or folder
    if not (source / "generation_config.json").is_file():
        return None
    check_model_folder(source)
    # It holds numbers only, so that there is no code to trust.
    return GenerationConfig.from_pretrained(source, local_files_only=True)


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
        options: Options of the base model's `from_pretrained`.
    """
    # Imported here, because only adapters need PEFT.
    from peft import PeftModel

    auto: Any = AutoModelForCausalLM
    try:
        check_model_folder(folder)
        base = base_of(folder)
        if base is not None:
            check_size(load_config(base), read_weight_sizes(base))
        with offline():
            model = auto.from_pretrained(base, **{**options, **WEIGHTS_TRUST})
            return PeftModel.from_pretrained(model, folder, is_trainable=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:MAX_REASON].removesuffix(".")
        raise ValueError(
            f"The adapter in {folder} cannot be loaded ({reason}). Copy the whole folder again."
        ) from error


def load_model(folder: Path) -> PreTrainedModel:
    """Load the model in a folder, from any form of weights, in this process alone.

    The files of a training checkpoint are first compared with its manifest.

    Nothing in the folder is executed or unpickled, and nothing is downloaded.

    Raises ValueError if the weights cannot be read or belong to another model.
    """
    try:
        with offline():
            model, loading_info = _load(folder)
        for kind, wrong in _WRONG.items():
            names = sorted(key if isinstance(key, str) else key[0] for key in loading_info[kind])
            if names:
                kinds = ", ".join(getattr(model.config, "architectures", None) or ("no architecture",))
                raise ValueError(
                    f"it is no causal language model, or its config ({kinds}) describes another model: {names[0]} "
                    f"{wrong}"
                )
    except Exception as error:
        # A field of a forged config can have any type and value, so that transformers and torch raise any error.
        # transformers lists all classes that it knows.
        text = " ".join(str(error).split()).partition(" Model type should be one of")[0]
        reason = text[:MAX_REASON].removesuffix(".") or type(error).__name__
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
    if (base := base_of(folder)) is not None:
        return _load_adapter(folder, base)
    config = load_config(folder)
    if not (folder / SHARDS).is_dir():
        check_size(config, read_weight_sizes(folder))
        model, loading_info = auto.from_pretrained(folder, config=config, **wishes, **WEIGHTS_TRUST)
        return model, loading_info
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    weights = read_shards(folder / SHARDS)
    check_size(config, [weight.nbytes for weight in weights.values()])
    model, loading_info = kind.from_pretrained(None, config=config, state_dict=weights, **wishes)
    return model, loading_info


def _load_adapter(folder: Path, base: Path) -> tuple[Any, Mapping[str, Collection[str | tuple[str, ...]]]]:
    """Return a model with the adapter in a folder, and the weights of the adapter that did not fit."""
    # Imported here, because only adapters need PEFT.
    from peft import PeftConfig

    check_model_folder(folder)
    weights = read_shards(folder / SHARDS) if (folder / SHARDS).is_dir() else load_file(folder / _ADAPTER_WEIGHTS)
    adapter = PeftConfig.from_pretrained(str(folder))
    model: Any = load_model(base)
    loading_info = model.load_adapter(peft_config=adapter, adapter_state_dict=weights, ignore_mismatched_sizes=True)
    return model, vars(loading_info)
