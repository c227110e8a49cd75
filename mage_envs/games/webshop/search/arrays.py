"""The arrays of a search index, and their folder with one `.npy` file per array."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.files.atomic import write_atomically

FORMAT = 1
"""Version of the stored index. It changes with the files and with the conversion of text to terms."""
_ABOUT = "index.json"


@dataclass(frozen=True)
class IndexArrays:
    """An index as arrays. A posting is a pair of term and document. Postings are sorted by term, then by document."""

    documents: NDArray[np.uint32]
    """Number of the document of each posting, shape (postings,)."""
    pairs: NDArray[Any]
    """Row of `pair_table` of each posting, shape (postings,); uint16 if that suffices, else uint32."""
    pair_table: NDArray[np.uint32]
    """Distinct (count of a term in a document, code of the document's length), shape (pairs, 2)."""
    starts: NDArray[np.int64]
    """Start of each term's postings, and the end of the last, shape (terms + 1,)."""
    best: NDArray[np.float32]
    """Largest divisor (`bm25.divisors`) among each term's postings, shape (terms,)."""
    vocabulary: NDArray[np.uint8]
    """Sorted terms in UTF-8, concatenated."""
    vocabulary_starts: NDArray[np.int64]
    """Start of each term in `vocabulary`, and the end of the last, shape (terms + 1,)."""
    ranks: NDArray[np.uint32]
    """Place of each document in the order of ids, shape (documents,)."""
    totals: NDArray[np.int64]
    """Number of documents with a term, and number of terms in all documents, shape (2,)."""


class PackedTexts:
    """Texts that are collected in one buffer, without a Python object per text."""

    def __init__(self) -> None:
        self._buffer, self._ends = bytearray(), array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, text: str) -> None:
        """Append a text."""
        self._buffer += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._buffer))

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of bytes of each text, shape (texts,)."""
        ends = np.array(self._ends, np.int64)
        return ends[1:] - ends[:-1]

    def fixed_width(self) -> NDArray[np.bytes_]:
        """Return the texts in UTF-8 as an array, shape (texts,)."""
        texts = np.zeros(len(self), f"S{self.lengths().max(initial=1)}")
        for number, (start, end) in enumerate(pairwise(self._ends)):
            texts[number] = bytes(self._buffer[start:end])
        return texts


def write_parts(path: Path, dtype: Any, shape: tuple[int, ...], parts: Iterable[NDArray[Any]]) -> None:
    """Write the file of an array from consecutive parts, so that memory contains one part at a time.

    Args:
        path: The `.npy` file.
        shape: Shape of the whole array.
    """
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype).data)


def mark_complete(folder: Path) -> None:
    """Mark the index in a folder as complete."""
    # Written last: an interrupted build leaves no such file, so that its index cannot be opened.
    write_atomically(folder / _ABOUT, json.dumps({"format": FORMAT}) + "\n")


def open_arrays(folder: Path, verify: Callable[[Path], Path]) -> IndexArrays:
    """Return the arrays in a folder, mapped read-only, so that processes share them.

    `verify` checks a file before its first use and returns its path. Raises FileNotFoundError or ValueError if the
    folder has no complete index of this format.
    """
    about = folder / _ABOUT
    if not about.is_file():
        raise FileNotFoundError(f"{folder} has no complete search index ({_ABOUT} is missing): build it again.")
    version = json.loads(verify(about).read_text("utf-8"))["format"]
    if version != FORMAT:
        raise ValueError(f"The search index in {folder} has format {version}, expected {FORMAT}: build it again.")
    return IndexArrays(**{field.name: map_array(verify(folder / f"{field.name}.npy")) for field in fields(IndexArrays)})


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of a file, mapped read-only."""
    # A plain array is faster to slice than a memmap.
    return np.asarray(np.load(path, "r", allow_pickle=False))
