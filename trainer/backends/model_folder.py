"""The folder of a saved model, which may come from a stranger: checked, then loaded as data.

Nothing in the folder is executed, unpickled or downloaded, and no file outside of it is opened. Only a model that an
adapter names is loaded from another folder, or from the hub's cache.
"""

from __future__ import annotations

import json
import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mage_envs.files.bounded import UnsafeFile, open_inside, read_json_inside

CONFIGS = ("config.json", "adapter_config.json")
TRUST: Mapping[str, bool] = {"trust_remote_code": False, "local_files_only": True}
"""Arguments of every `from_pretrained`. If `trust_remote_code` were not set, transformers would ask on the terminal."""
WEIGHTS_TRUST: Mapping[str, bool] = {**TRUST, "use_safetensors": True}
"""Arguments of every `from_pretrained` that loads weights. Other weights are pickles."""
MAX_REASON = 600
"""Limit in characters of the message of a library in an error. It may contain a whole file."""
_MAX_HEADER_BYTES = 100 * 2**20
"""Limit in bytes of the header of a safetensors file, as in safetensors."""
_SLACK = 2**24
"""Number of weights that a model may have beyond its files: tied ones, and small models."""
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers", "num_encoder_layers")
_MAX_LAYERS = 10_000
_TEXTS = ("tokenizer_config.json", "tokenizer.json", "special_tokens_map.json", "generation_config.json")


class BadModel(ValueError):
    """The folder of a model cannot be used. The message names the file."""


@contextmanager
def offline() -> Iterator[None]:
    """Answer every request to the hub with an error, because its name comes from a file and not from the user."""
    from huggingface_hub import constants

    previous_value = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = previous_value


def check_model_folder(folder: Path) -> None:
    """Check the files of a model before a library reads them.

    Raises:
        BadModel: If a file is not a regular one, links out of the folder, names a file outside, would execute code,
            or is damaged.
    """
    root = _root(folder)
    for path in sorted(folder.iterdir()):
        about = path.stat()
        if not path.resolve().is_relative_to(root):
            raise BadModel(f"{path} is a link to {str(path.resolve())!r}, outside the folder; copy the file instead")
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise BadModel(f"{path} is not a regular file")
    config, adapter, *_ = [read_model_json(folder, name) for name in (*CONFIGS, *_TEXTS)]
    _check_config(folder / "config.json", config)
    # PEFT would import the module of this name.
    if adapter.get("megatron_config") or adapter.get("megatron_core", "megatron.core") != "megatron.core":
        raise BadModel(f"{folder / 'adapter_config.json'} sets megatron_core, which this suite does not load")
    for path in sorted(folder.glob("*.index.json")):
        names = read_model_json(folder, path.name).get("weight_map", {})
        for name in sorted(set(names.values()) if isinstance(names, dict) else ()):
            if not isinstance(name, str) or name != os.path.basename(name):
                raise BadModel(f"{path} names {name!r}, which is not a file of the folder")
    for path in sorted(folder.glob("*.safetensors")):
        read_header(folder, path.name)


def open_model_file(folder: Path, name: str) -> BinaryIO:
    """Open a regular file of a model. Raise FileNotFoundError, or UnsafeFile for a link out of the folder."""
    root = _root(folder)
    return open_inside(root, os.path.relpath((folder / name).resolve(), root))


def read_model_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of a model; an empty one if the file does not exist. Raise BadModel."""
    root, path = _root(folder), folder / name
    if not path.exists():
        return {}
    try:
        value = read_json_inside(root, os.path.relpath(path.resolve(), root))
    except UnsafeFile as error:
        raise BadModel(str(error)) from error
    except ValueError as error:
        raise BadModel(f"{path} cannot be read as JSON") from error
    if not isinstance(value, dict):
        raise BadModel(f"{path} must be a JSON object, and is a {type(value).__name__}")
    return value


def read_header(folder: Path, name: str) -> dict[str, Any]:
    """Return the header of a safetensors file: shape, type and position of each weight. Raise BadModel if it is bad."""
    path = folder / name
    with open_model_file(folder, name) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
            raise BadModel(f"{path} is damaged: it has {size} bytes, and its header should have {length}")
        content = file.read(length)
    try:
        header = json.loads(content)
        header.pop("__metadata__", None)
        ends = [int(item["data_offsets"][1]) for item in header.values()]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise BadModel(f"{path} is damaged: its header cannot be read ({error})") from error
    if ends and max(ends) + 8 + length != size:
        raise BadModel(f"{path} has {size} bytes instead of {max(ends) + 8 + length}")
    weights: dict[str, Any] = header
    return weights


def read_weight_sizes(folder: Path) -> list[int]:
    """Return the bytes of each weight in the safetensors files of a folder. Raise BadModel if it has no such file."""
    headers = [read_header(folder, path.name) for path in sorted(folder.glob("*.safetensors"))]
    if not headers:
        raise BadModel(
            "it has no weights in safetensors files; others can run code: convert them with save_pretrained where you "
            "trust them"
        )
    return [end - start for header in headers for start, end in (item["data_offsets"] for item in header.values())]


def check_size(config: Any, sizes: Sequence[int]) -> None:
    """Raise BadModel if a config describes a model that is much larger than its weights, before memory is allocated.

    Args:
        config: Config of the model (`transformers.PreTrainedConfig`).
    """
    # Imported here, because the other checks need neither torch nor transformers.
    import torch
    from transformers import AutoModelForCausalLM

    layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
    # Checked first: even a model without memory takes a millisecond per layer.
    if layers > len(sizes):
        raise BadModel(f"its config describes another model: of {layers} layers, and there are {len(sizes)} weights")
    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config, trust_remote_code=False)
    described = sum(item.numel() for item in (*model.parameters(), *model.buffers()))
    # A byte of quantised weights holds two numbers.
    stored = 2 * sum(sizes)
    if described > stored + _SLACK:
        raise BadModel(f"its config describes another model: of {described} numbers, and its files have {stored}")


def load_config(folder: Path) -> Any:
    """Return the config of a model after checking the folder. Raise BadModel, or an error of transformers."""
    from transformers import AutoConfig

    check_model_folder(folder)
    return AutoConfig.from_pretrained(folder, **TRUST)


def load_tokenizer(folder: str | Path) -> Any:
    """Return the tokenizer in a folder. Raise BadModel with one line for every error of its files."""
    from transformers import AutoTokenizer

    path = Path(folder)
    try:
        check_model_folder(path)
        with offline():
            return AutoTokenizer.from_pretrained(path, **TRUST)
    except Exception as error:
        # The tokenizers package raises plain Exception for a damaged file, and Python errors for a wrong type.
        reason = " ".join(str(error).split())[:MAX_REASON].removesuffix(".") or type(error).__name__
        raise BadModel(
            f"The tokenizer in {path} cannot be loaded ({reason}). Copy the whole folder again, or use another model."
        ) from error


def _root(folder: Path) -> Path:
    """Return the folder that must contain all files: in the hub's cache, files are links into a neighbouring folder."""
    real = folder.resolve()
    repository = real.parent.parent
    return repository if real.parent.name == "snapshots" and (repository / "blobs").is_dir() else real


def _check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Raise BadModel if a field of a config, or of a config in it, would download code or open another folder."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            _check_config(path, value)
        # Before transformers makes a list of this length.
        elif name in _LAYERS and isinstance(value, int | float) and value > _MAX_LAYERS:
            raise BadModel(f"{path}: {name}={value:.0f} is out of range; expected at most {_MAX_LAYERS}")
        # A name on the hub, from which transformers would download and run a kernel.
        elif (name.endswith("_implementation") or name == "transformers_weights") and "/" in str(value):
            raise BadModel(f"{path}: {name}={value!r} names a file or code elsewhere; remove it")


def quieten() -> None:
    """Silence progress bars and advice of the underlying libraries, in this process and in those that it starts."""
    # Environment variables, so that worker processes inherit them. A user's own value wins.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore", module="transformers|trl|torch|accelerate|peft")
