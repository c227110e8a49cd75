"""Weights in the shards of a training checkpoint, read without running code.

torch.distributed.checkpoint stores the list of its shards as a pickle. `torch` would load any object from it. This
reader creates only the classes of such a list.
"""

from __future__ import annotations

import pickle
import warnings
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from mage_envs.files.bounded import open_inside, read_inside

_ABOVE = "model."
"""Prefix of each weight's name in the shards."""
_METADATA = ".metadata"
_CLASSES = {
    "torch": {"Size", "device"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties"),
        *("MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
}
"""Names by module that a list of shards may contain, besides the data types of torch."""


class _ShardListUnpickler(pickle.Unpickler):
    """Unpickler of the classes of a list of shards."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "pathlib" and name in ("PosixPath", "WindowsPath"):
            # The folder that the shards were written to. A pure path opens nothing.
            return PurePath
        kind = getattr(torch, name, None) if module == "torch" else None
        if name in _CLASSES.get(module, ()) or isinstance(kind, torch.dtype):
            return super().find_class(module, name)
        raise ValueError(f"it contains {module}.{name}, which no list of shards has")


class _ShardReader(FileSystemReader):
    """Reader of shards that creates no other classes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        about = _ShardListUnpickler(BytesIO(read_inside(self.folder, _METADATA))).load()
        if not isinstance(about, Metadata):
            raise ValueError(f"it contains a {type(about).__name__}")
        # As FileSystemReader does, whose `load` compares the id.
        about.storage_meta = about.storage_meta or StorageMeta()
        about.storage_meta.load_id = self.load_id
        return about


def read_shards(folder: Path) -> dict[str, torch.Tensor]:
    """Return the weights in a folder of shards, by their names in the model.

    Raises:
        ValueError: If the list of shards or a shard is missing, damaged, or contains something else.
    """
    reader = _ShardReader(folder)
    try:
        about = reader.read_metadata()
        parts = {(part.relative_path, part.offset + part.length) for part in (about.storage_data or {}).values()}
        items = {
            name: item for name, item in about.state_dict_metadata.items() if isinstance(item, TensorStorageMetadata)
        }
        declared = sum(item.size.numel() * item.properties.dtype.itemsize for item in items.values())
    except Exception as error:
        # A damaged pickle may raise any exception.
        raise ValueError(f"{folder / _METADATA} cannot be read: {error}") from error
    sizes: dict[str, int] = {}
    for name, end in sorted(parts):
        try:
            # Checked before loading, so that the error names the file and its size.
            with open_inside(folder, name) as file:
                sizes[name] = file.seek(0, 2)
        except FileNotFoundError:
            sizes[name] = 0
        if sizes[name] < end:
            file_name = folder / name
            raise ValueError(
                f"{file_name} has {sizes[name]} bytes instead of {end}" if sizes[name] else f"{file_name} is missing"
            )
    # Before memory is allocated: a list of 1 kB can declare tensors of a terabyte.
    if declared > sum(sizes.values()):
        raise ValueError(f"{folder / _METADATA} lists {declared} bytes of weights, and the shards have less")
    weights = {name: torch.empty(item.size, dtype=item.properties.dtype) for name, item in items.items()}
    try:
        with warnings.catch_warnings():
            # Intended: one process reads all shards.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load(weights, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        reason, _ = error.failures[0]
        raise ValueError(f"{folder} is damaged: {reason}".partition(". ")[0]) from error
    return {name.removeprefix(_ABOVE): weight for name, weight in weights.items()}
