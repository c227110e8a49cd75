"""Catalogues on disk: records that are read by position or asin, and tables that all processes share.

A built folder contains:

- `products.bin` and `products.off.npy`: JSON records and their ends.
- `asins.npy` and `asins.rank.npy`: sorted asins and their positions.
- `queries.npy` and `categories.npy` with `names.json`: one code per product.
- `goals.<kind>.ends.npy`: number of goals up to each product.
- `goals.<kind>.order.npy`: the original's shuffle.
- `goals.<kind>.<split>.npy`: numbers of a split's goals.
- `index/`: the arrays of the search engine.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.cache import CheckedFiles, skip_check
from mage_envs.games.webshop.chance import shuffle_range
from mage_envs.games.webshop.goals import KINDS
from mage_envs.games.webshop.products import Product, from_record
from mage_envs.games.webshop.search.arrays import FORMAT as INDEX_FORMAT
from mage_envs.games.webshop.search.arrays import PackedTexts, map_array
from mage_envs.games.webshop.search.build import write_index

FORMAT = f"1.{INDEX_FORMAT}"
"""Version of the folder's format and of its index; part of every cache key."""
_KEPT = 512
"""Number of parsed products that a process keeps. Pages of results share many of them."""
_IN_MEMORY = 1 << 16
"""Maximum number of values of a growing array that are not yet in its file."""


class KeyedRecords:
    """Records that are read by position or key."""

    def __init__(self, folder: Path, name: str, keys: str, verify: Callable[[Path], Path] = skip_check) -> None:
        """Open the files that `RecordWriter` wrote.

        Args:
            name: Name of the records' files.
            keys: Name of the keys' files.
            verify: Function that checks a file before its first use and returns its path.
        """
        self._ends = map_array(verify(folder / f"{name}.off.npy"))
        self._keys = map_array(verify(folder / f"{keys}.npy"))
        self._ranks = map_array(verify(folder / f"{keys}.rank.npy"))
        self._path, self._verify = folder / f"{name}.bin", verify

    def __len__(self) -> int:
        return len(self._ends)

    @cached_property
    def _file(self) -> int:
        """File descriptor of the records."""
        # Records are read, not mapped, because mapped pages count as memory of each process.
        file = os.open(self._verify(self._path), os.O_RDONLY)
        weakref.finalize(self, os.close, file)
        return file

    def __getitem__(self, position: int) -> bytes:
        # `pread` has no shared file position, so threads can read at the same time.
        start = int(self._ends[position - 1]) if position else 0
        return os.pread(self._file, int(self._ends[position]) - start, start)

    def find(self, key: str) -> int | None:
        """Return the position of the record with that key, or None if there is none."""
        encoded_key = key.encode("utf-8", "surrogatepass")
        # For a longer key NumPy would convert a copy of all keys to its length.
        if len(encoded_key) > self._keys.itemsize:
            return None
        row = int(np.searchsorted(self._keys, np.bytes_(encoded_key)))
        if row < len(self._keys) and bytes(self._keys[row]) == encoded_key:
            return int(self._ranks[row])
        return None


class RecordWriter:
    """Writer of the files of `KeyedRecords`. It is a context manager; the files are complete at its end.

    Args:
        name: Name of the records' files.
        keys: Name of the keys' files.
    """

    def __init__(self, folder: Path, name: str, keys: str) -> None:
        self._folder, self._name, self._key_name = folder, name, keys
        self._file = (folder / f"{name}.bin").open("wb")
        self._ends = array("Q")
        self._keys = PackedTexts()
        self._end = 0

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, key: str, record: bytes) -> None:
        """Append a record."""
        self._file.write(record)
        self._end += len(record)
        self._ends.append(self._end)
        self._keys.add(key)

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        # After an error the caller drops the folder, so the tables are not needed.
        if kind is None:
            self._write_tables()

    def _write_tables(self) -> None:
        # Keys of fixed width can be searched in place, without a Python object per key.
        keys = self._keys.fixed_width()
        ranks = np.argsort(keys, kind="stable")
        np.save(self._folder / f"{self._name}.off.npy", np.frombuffer(self._ends, np.uint64))
        np.save(self._folder / f"{self._key_name}.npy", keys[ranks])
        np.save(self._folder / f"{self._key_name}.rank.npy", ranks.astype(np.uint32))


class _Growing:
    """An array that grows in a file, so that memory does not depend on its length."""

    def __init__(self, path: Path, code: str) -> None:
        self._path = path
        self._part = path.with_suffix(".part")
        self._part.touch()
        self._numbers = array(code)
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._numbers)

    def append(self, number: int) -> None:
        self._numbers.append(number)
        if len(self._numbers) == _IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        with self._part.open("ab") as file:
            self._numbers.tofile(file)
        self._count += len(self._numbers)
        del self._numbers[:]

    def finish(self) -> None:
        """Write the `.npy` file."""
        # The header contains the length, which is known only now. Hence the file is written in two steps.
        self._flush()
        kind = {"I": "<u4", "Q": "<u8"}[self._numbers.typecode]
        with self._part.open("rb") as part, self._path.open("wb") as file:
            header = {"descr": kind, "fortran_order": False, "shape": (self._count,)}
            np.lib.format.write_array_header_1_0(file, header)
            shutil.copyfileobj(part, file, 1 << 20)
        self._part.unlink()


class _Column:
    """One string per product, stored as a code."""

    def __init__(self, folder: Path, name: str) -> None:
        self.names: dict[str, int] = {}
        self.codes = _Growing(folder / f"{name}.npy", "I")

    def add(self, name: str) -> None:
        self.codes.append(self.names.setdefault(name, len(self.names)))


class _GoalNumbers:
    """The goals of one kind, numbered over all products."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        self._ends = _Growing(folder / f"goals.{kind}.ends.npy", "Q")
        self._splits: dict[str, _Growing] = {}
        self._count = 0

    def add(self, product: Product) -> None:
        for split in KINDS[self._kind].splits(product):
            if split not in self._splits:
                self._splits[split] = _Growing(self._folder / f"goals.{self._kind}.{split}.npy", "I")
            self._splits[split].append(self._count)
            self._count += 1
        self._ends.append(self._count)

    def finish(self) -> dict[str, int]:
        """Complete the files. Returns the number of goals in each split."""
        self._ends.finish()
        for numbers in self._splits.values():
            numbers.finish()
        if self._count:
            order = np.frombuffer(shuffle_range(self._count), np.uint32)
            np.save(self._folder / f"goals.{self._kind}.order.npy", order)
        return {split: len(numbers) for split, numbers in sorted(self._splits.items())}


def write_catalogue(folder: Path, products: Iterable[Product]) -> dict[str, Any]:
    """Write products, goals and the search index.

    Returns the entries of the manifest. Raises ValueError if there is no product.
    """
    columns = {name: _Column(folder, name) for name in ("queries", "categories")}
    goals = {kind: _GoalNumbers(folder, kind) for kind in KINDS}

    # One pass over the products fills all tables, because a stream of a million products cannot be read twice.
    def documents(records: RecordWriter) -> Iterator[tuple[str, str]]:
        for product in products:
            records.add(product.asin, product.to_record())
            columns["queries"].add(product.query)
            columns["categories"].add(product.category)
            for table in goals.values():
                table.add(product)
            yield product.asin, product.search_text()

    with RecordWriter(folder, "products", "asins") as records:
        write_index(documents(records), folder / "index")
    if not len(records):
        raise ValueError("a catalogue must have at least one product, got none")
    for column in columns.values():
        column.codes.finish()
    names = {name: list(column.names) for name, column in columns.items()}
    (folder / "names.json").write_text(json.dumps(names), "utf-8")
    return {
        "format": FORMAT,
        "products": len(records),
        "goals": {kind: table.finish() for kind, table in goals.items()},
    }


class Catalogue:
    """The products of a built folder, with the tables of their goals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.verify = CheckedFiles(folder)
        """Function that verifies a file before its first use and returns it. Raises DamagedCache."""
        self.about = self.verify.about
        if self.about.get("format") != FORMAT:
            raise ValueError(
                f"{folder} has format {self.about.get('format')}, expected {FORMAT}: import its data again."
            )
        self._records = KeyedRecords(folder, "products", "asins", self.verify)
        self.product = lru_cache(_KEPT)(self._read)
        """Function that returns the product at a position."""
        self._tables: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def _read(self, position: int) -> Product:
        return from_record(self._records[position])

    def find(self, asin: str) -> int | None:
        """Return the position of the product with that asin, or None if there is none."""
        return self._records.find(asin)

    def table(self, name: str) -> NDArray[Any]:
        """Return one of the folder's arrays, by the name of its file."""
        if name not in self._tables:
            self._tables[name] = map_array(self.verify(self.folder / f"{name}.npy"))
        return self._tables[name]

    def where(self, column: str, name: str) -> Sequence[int]:
        """Return the positions of the products with `name` in the column `queries` or `categories`."""
        names = json.loads(self.verify(self.folder / "names.json").read_text("utf-8"))[column]
        if name not in names:
            return ()
        positions: list[int] = np.flatnonzero(self.table(column) == names.index(name)).tolist()
        return tuple(positions)
