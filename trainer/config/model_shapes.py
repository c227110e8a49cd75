"""Shapes of models, and hence their numbers of parameters, without loading them.

A shape comes from a model's folder, or for Qwen3 from its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from mage_envs.trainer.backends.model_folder import read_header, read_model_json

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Names of a layer's linear projections."""


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Shape of a decoder of the Llama and Qwen family."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    tied: bool
    head_norms: bool = True
    """True if queries and keys are normalised (Qwen3)."""
    attention_bias: bool = False
    """True if the projections for queries, keys and values have a bias."""
    bytes_kept: int = 2
    """Bytes per parameter in the model's files, which is how `dtype: auto` loads it."""
    counted: int | None = None
    """Number of parameters in the model's files, if they are local."""

    @property
    def products(self) -> dict[str, tuple[int, int]]:
        """Input and output sizes of each linear projection of a layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def layer(self) -> int:
        """Number of parameters of a layer."""
        # The projections, and the two norms before attention and MLP.
        count = sum(inputs * outputs for inputs, outputs in self.products.values()) + 2 * self.hidden
        count += 2 * self.head_dim if self.head_norms else 0
        return count + (sum(self.products[name][1] for name in LINEAR[:3]) if self.attention_bias else 0)

    @property
    def parameters(self) -> int:
        """Number of parameters of the model."""
        if self.counted is not None:
            return self.counted
        # Embeddings (and an LM head, unless it is tied), the layers, and the final norm.
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.layers * self.layer + self.hidden

    @property
    def cache_numbers(self) -> int:
        """Numbers that the key-value cache stores for one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def adapter(self, rank: int, modules: list[str] | None) -> int:
        """Return the parameters of a LoRA adapter on these projections of every layer.

        Without `modules`, PEFT adapts queries and values.
        """
        module_names = modules or ["q_proj", "v_proj"]
        names = LINEAR if "all-linear" in module_names else [name for name in LINEAR if name in module_names]
        return self.layers * sum(rank * sum(self.products[name]) for name in names)


def _qwen3(hidden: int, layers: int, heads: int, intermediate: int, tied: bool) -> ModelShape:
    return ModelShape(
        vocab=151_936,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=8,
        head_dim=128,
        intermediate=intermediate,
        tied=tied,
    )


KNOWN = {
    "Qwen/Qwen3-0.6B": _qwen3(1024, 28, 16, 3072, True),
    "Qwen/Qwen3-1.7B": _qwen3(2048, 28, 16, 6144, True),
    "Qwen/Qwen3-4B": _qwen3(2560, 36, 32, 9728, True),
    "Qwen/Qwen3-8B": _qwen3(4096, 36, 32, 12_288, False),
    "Qwen/Qwen3-14B": _qwen3(5120, 40, 40, 17_408, False),
    "Qwen/Qwen3-32B": _qwen3(5120, 64, 64, 25_600, False),
    "tiny": ModelShape(  # trainer/backends/tiny.py
        vocab=259,
        hidden=32,
        layers=1,
        heads=2,
        kv_heads=2,
        head_dim=16,
        intermediate=64,
        tied=True,
        bytes_kept=4,
    ),
}


def folder_of(model: str) -> Path | None:
    """Return the folder of a model's files: its own, or the one in the hub's cache. None if they are not local."""
    if Path(model).is_dir():
        return Path(model)
    try:
        from huggingface_hub import try_to_load_from_cache

        config_path = try_to_load_from_cache(model, "config.json")
    except (ImportError, ValueError):
        # huggingface_hub is not installed, or `model` is not a valid name on the hub.
        return None
    return Path(config_path).parent if isinstance(config_path, str) else None


def shape_of(model: str) -> ModelShape | None:
    """Return the shape of a model, or None if its architecture is unknown or its files are not local."""
    if model in KNOWN:
        return KNOWN[model]
    folder = folder_of(model)
    if folder is None or not (folder / "config.json").is_file():
        return None
    config: dict[str, Any] = read_model_json(folder, "config.json")
    # Other architectures have other layers, for which the formulas above are wrong.
    kind = config.get("model_type")
    if kind not in ("qwen3", "qwen2", "llama", "mistral"):
        return None
    heads = config["num_attention_heads"]
    return ModelShape(
        vocab=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        intermediate=config["intermediate_size"],
        tied=bool(config.get("tie_word_embeddings")),
        head_norms=kind == "qwen3",
        attention_bias=kind == "qwen2" or bool(config.get("attention_bias")),
        bytes_kept=4 if (config.get("dtype") or config.get("torch_dtype")) == "float32" else 2,
        counted=_count_parameters(folder),
    )


def _count_parameters(folder: Path) -> int | None:
    """Return the number of parameters in the headers of a folder's safetensors files, or None without such files."""
    total = 0
    for file in folder.glob("*.safetensors"):
        total += sum(prod(about["shape"]) for about in read_header(folder, file.name).values())
    return total or None
