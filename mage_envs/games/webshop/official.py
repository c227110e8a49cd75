"""The original's data files, read as streams into a built folder.

`items_shuffle.json` is one JSON array of 1.18 million products (5 GB), so it is decoded through a sliding window.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from mage_envs.games.webshop.cache import cached
from mage_envs.games.webshop.products import (
    MalformedAnnotation,
    MalformedAttributes,
    MalformedProduct,
    Product,
    is_kept,
    normalise,
)
from mage_envs.games.webshop.store import FORMAT, KeyedRecords, RecordWriter, write_catalogue
from mage_envs.progress import Progress

CHUNK = 1 << 20
"""Characters read at a time."""
LARGEST = 1 << 26
"""Characters of one entry beyond which a file counts as malformed."""
HUMAN = "items_human_ins.json"
WHERE = "https://github.com/princeton-nlp/WebShop tells where to get it"


class DataFileError(ValueError):
    """A file of the original's that is missing or cannot be read; the message names the file and the place."""


class Files(NamedTuple):
    """The names of one size's files."""

    products: str
    instructions: str


SIZES: Mapping[str, Files] = {
    "small": Files("items_shuffle_1000.json", "items_ins_v2_1000.json"),
    "full": Files("items_shuffle.json", "items_ins_v2.json"),
}


class _Window:
    """A JSON text of any length, decoded piece by piece."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._at, self._before = "", 0, 0
        self._ended = False
        self._tell = Progress(f"WebShop reads {path}", path.stat().st_size >> 20, "MiB")

    def error(self, problem: str) -> DataFileError:
        return DataFileError(f"{self._path}, character {self._before + self._at}: {problem}.")

    def _fill(self, size: int = CHUNK) -> bool:
        """Drops what was decoded and reads on; False at the end of the file."""
        try:
            more = self._file.read(size)
        except UnicodeDecodeError as error:
            raise self.error(f"this is no text in UTF-8 ({error.reason})") from error
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0
        self._ended = not more
        self._tell(self._file.buffer.tell() >> 20)
        return bool(more)

    def peek(self) -> str:
        """The next character that is no blank, empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def end(self) -> None:
        """Nothing but blanks may follow."""
        if found := self.peek():
            raise self.error(f"there is {found!r} after the end")

    def expect(self, characters: str) -> str:
        """Takes one of these characters."""
        found = self.peek()
        if not found or found not in characters:
            wanted = " or ".join(map(repr, characters))
            raise self.error(
                f"there is {found!r} where {wanted} belongs" if found else f"the file ends before {wanted}"
            )
        self._at += 1
        return found

    def value(self) -> Any:
        """Takes one value."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                pending = len(self._text) - self._at
                if pending > LARGEST or not self._fill(max(CHUNK, pending)):
                    raise self.error(f"this is no JSON ({error.msg})") from error
                continue
            length = end - self._at
            if end == len(self._text) and not self._ended and self._fill():
                continue  # a number may go on in the next chunk
            self._at += length
            return value


def read_array(path: Path) -> Iterator[Any]:
    """The elements of a file that is one JSON array. Raises DataFileError."""
    with path.open(encoding="utf-8-sig") as file:
        window = _Window(path, file)
        window.expect("[")
        if window.peek() == "]":
            window.expect("]")
        else:
            yield window.value()
            while window.expect(",]") == ",":
                yield window.value()
        window.end()


def read_object(path: Path) -> Iterator[tuple[str, Any]]:
    """The members of a file that is one JSON object. Raises DataFileError."""
    with path.open(encoding="utf-8-sig") as file:
        window = _Window(path, file)
        window.expect("{")
        if window.peek() == "}":
            window.expect("}")
            return window.end()
        while True:
            key = window.value()
            window.expect(":")
            yield str(key), window.value()
            if window.expect(",}") == "}":
                return window.end()


def import_official(
    folder: str | Path, size: str = "small", cache: str | Path | None = None, products: int | None = None
) -> Path:
    """Converts the original's files in `folder` once; returns the built folder, which later calls return at once.

    `size`: `small` (`items_shuffle_1000.json`, `items_ins_v2_1000.json`) or `full` (`items_shuffle.json`,
    `items_ins_v2.json`). People's instructions (`items_human_ins.json`) are taken where the file is there. `cache`
    takes the place of `$MAGE_ENVS_CACHE`. `products`: only so many entries, from the start, as the original's
    `num_products`. Raises DataFileError naming the file that is missing or malformed.
    """
    source = Path(folder)
    if products is not None and products < 1:
        raise ValueError(f"products={products!r} must be at least 1.")
    if size not in SIZES:
        raise ValueError(f"size={size!r} is unknown for the original's data; choose one of: 'small', 'full'.")
    if not source.is_dir():
        raise DataFileError(f"There is no folder {source}; give the one that holds {SIZES[size].products}.")
    missing = [name for name in SIZES[size] if not (source / name).is_file()]
    if missing:
        raise DataFileError(f"{source} has no {' and no '.join(missing)} (size={size!r}); {WHERE}.")
    used = [source / name for name in (*SIZES[size], HUMAN) if (source / name).is_file()]
    marks = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in used]
    key = f"official-{size}-{sha256(repr((FORMAT, marks, products)).encode()).hexdigest()[:24]}"
    root = None if cache is None else Path(cache)
    return cached(key, lambda draft: _convert(source, SIZES[size], draft, products), root)


def _convert(source: Path, files: Files, draft: Path, count: int | None) -> dict[str, Any]:
    instructions = _keyed(source / files.instructions, draft)
    annotations = dict(_annotations(source / HUMAN))
    try:
        about = write_catalogue(draft, _products(source, files, instructions, annotations, count))
    except DataFileError:
        raise
    except ValueError as error:
        raise DataFileError(f"{source / files.products}: {error}.") from error
    for name in ("instructions.bin", "instructions.off.npy", "instructed.npy", "instructed.rank.npy"):
        (draft / name).unlink()
    return about | {"source": {"kind": "official", "files": list(files), "entries": count}}


def _keyed(path: Path, draft: Path) -> KeyedRecords:
    """The entries of the file of attributes on disk, since a million of them do not fit into memory."""
    with RecordWriter(draft, "instructions", "instructed") as writer:
        for asin, entry in read_object(path):
            if not isinstance(entry, dict):
                raise DataFileError(f"{path}: the entry of {asin} must be an object, not {entry!r:.60}.")
            writer.add(asin, json.dumps(entry).encode())
    if not len(writer):
        raise DataFileError(f"{path} holds no entry.")
    return KeyedRecords(draft, "instructions", "instructed")


def _annotations(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if not path.is_file():
        return
    for asin, entries in read_object(path):
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DataFileError(f"{path}: the entry of {asin} must be a list of objects, not {entries!r:.60}.")
        yield asin, entries


def _products(
    source: Path,
    files: Files,
    instructions: KeyedRecords,
    annotations: Mapping[str, list[dict[str, Any]]],
    count: int | None,
) -> Iterator[Product]:
    """The products that the original loads of the first `count` entries: each asin once, none above ten characters."""
    path = source / files.products
    seen, others = bytearray(len(instructions)), set[str]()
    for number, raw in enumerate(islice(read_array(path), count)):
        if not isinstance(raw, dict):
            raise DataFileError(f"{path}: entry {number} must be an object, not {raw!r:.60}.")
        try:
            if not is_kept(raw):
                continue
            asin = raw["asin"]
            place = instructions.find(asin)
            if asin in others or (place is not None and seen[place]):
                continue
            if place is None:
                others.add(asin)
            else:
                seen[place] = 1  # a bit of memory for each of a million products, where their names would take 100 MB
            about = None if place is None else json.loads(instructions[place])
            yield normalise(raw, about, annotations.get(asin, ()))
        except MalformedAttributes as error:
            raise DataFileError(f"{source / files.instructions}: {error}.") from error
        except MalformedAnnotation as error:
            raise DataFileError(f"{source / HUMAN}: {error}.") from error
        except MalformedProduct as error:
            raise DataFileError(f"{path}, entry {number}: {error}.") from error
