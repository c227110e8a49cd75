"""The arrays that a search index is made of, and the folder they are stored in: one `.npy` file each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.durable import write_atomically

FORMAT = 1
"""Of the stored index. It changes with the files, and with how text becomes terms."""
_ABOUT = "index.json"


@dataclass(frozen=True)
class IndexArrays:
    """An index as arrays. A posting says that a term is in a document: postings lie by term, then by document."""

    documents: NDArray[np.uint32]
    """Of each posting: the number of its document."""
    pairs: NDArray[Any]
    """Of each posting: row of `pair_table`; 16 bits wide where they suffice, else 32."""
    pair_table: NDArray[np.uint32]
    """(count of the term in the document, code of the document's length), each pair that occurs once."""
    starts: NDArray[np.int64]
    """Where each term's postings begin, and the end of the last."""
    best: NDArray[np.float32]
    """Of each term: the largest divisor (`bm25.divisors`) among its postings."""
    vocabulary: NDArray[np.uint8]
    """The terms in UTF-8, sorted, one after the other."""
    vocabulary_starts: NDArray[np.int64]
    ranks: NDArray[np.uint32]
    """Of each document: its place when documents are sorted by id."""
    totals: NDArray[np.int64]
    """Documents that have a term; terms of all documents together."""


def write_parts(path: Path, dtype: Any, shape: tuple[int, ...], parts: Iterable[NDArray[Any]]) -> None:
    """Writes the file of an array out of parts that follow one another, one of which is in memory."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype).data)


def mark_complete(folder: Path) -> None:
    """Says that a folder holds a whole index."""
    write_atomically(folder / _ABOUT, json.dumps({"format": FORMAT}) + "\n")


def open_arrays(folder: Path, checked: Callable[[Path], Path]) -> IndexArrays:
    """The arrays in a folder, mapped read-only, so that processes share them; `checked` gives each file out."""
    about = folder / _ABOUT
    if not about.is_file():
        raise FileNotFoundError(f"{folder} holds no search index ({_ABOUT} is missing): build it again.")
    found = json.loads(checked(about).read_text("utf-8"))["format"]
    if found != FORMAT:
        raise ValueError(f"The search index in {folder} has format {found}, not {FORMAT}: build it again.")
    return IndexArrays(**{field.name: _mapped(checked(folder / f"{field.name}.npy")) for field in fields(IndexArrays)})


def _mapped(path: Path) -> NDArray[Any]:
    return np.asarray(np.load(path, "r", allow_pickle=False))  # a plain array is faster to slice than a memmap
