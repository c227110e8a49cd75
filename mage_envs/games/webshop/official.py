"""Import of the original's data files, which are read as streams into a built folder.

`items_shuffle.json` is one JSON array of 1.18 million products (5 GB), so a sliding window decodes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from mage_envs.files.bounded import open_named
from mage_envs.games.webshop.cache import build_cached_folder
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

T = TypeVar("T")
CHUNK = 1 << 20
"""Number of characters per read."""
LARGEST = 1 << 26
"""Maximum number of characters per entry. A file with a longer entry is malformed."""
HUMAN = "items_human_ins.json"
WHERE = "https://github.com/princeton-nlp/WebShop describes the download"


class DataFileError(ValueError):
    """A file of the original that is missing or cannot be read. The message names the file and the position."""


class Files(NamedTuple):
    """The file names of one size."""

    products: str
    instructions: str


SIZES: Mapping[str, Files] = {
    "small": Files("items_shuffle_1000.json", "items_ins_v2_1000.json"),
    "full": Files("items_shuffle.json", "items_ins_v2.json"),
}


class _Window:
    """A JSON text of any length, decoded value by value."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._at, self._before = "", 0, 0
        self._ended = False
        self._tell = Progress(f"WebShop reads {path}", path.stat().st_size >> 20, "MiB")

    def error(self, problem: str) -> DataFileError:
        return DataFileError(f"{self._path}, character {self._before + self._at}: {problem}.")

    def _fill(self, size: int = CHUNK) -> bool:
        """Drop the decoded text and read more. Returns False at the end of the file."""
        try:
            chunk = self._file.read(size)
        except UnicodeDecodeError as error:
            raise self.error(f"this is not UTF-8 text ({error.reason})") from error
        self._before += self._at
        self._text, self._at = self._text[self._at :] + chunk, 0
        self._ended = not chunk
        self._tell(self._file.buffer.tell() >> 20)
        return bool(chunk)

    def peek(self) -> str:
        """Return the next non-blank character, or an empty string at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def end(self) -> None:
        """Raise DataFileError if anything but blanks follows."""
        if character := self.peek():
            raise self.error(f"found {character!r} after the end")

    def expect(self, characters: str) -> str:
        """Consume and return one of `characters`. Raises DataFileError if another character follows."""
        character = self.peek()
        if not character or character not in characters:
            expected = " or ".join(map(repr, characters))
            raise self.error(
                f"expected {expected}, got {character!r}" if character else f"expected {expected}, but the file ends"
            )
        self._at += 1
        return character

    def value(self) -> Any:
        """Consume and return one value. Raises DataFileError if it is malformed or too long."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The value may be incomplete. Doubling the window keeps the total work of retries linear.
                pending = len(self._text) - self._at
                if pending > LARGEST or not self._fill(max(CHUNK, pending)):
                    raise self.error(f"this is not JSON ({error.msg})") from error
                continue
            length = end - self._at
            # A number at the end of the window may continue in the next chunk.
            if end == len(self._text) and not self._ended and self._fill():
                continue
            self._at += length
            return value

    def pair(self) -> tuple[str, Any]:
        """Consume and return one key and its value."""
        key = self.value()
        self.expect(":")
        return str(key), self.value()


def read_array(path: Path) -> Iterator[Any]:
    """Yield the elements of a file that is one JSON array. Raises DataFileError if it is not."""
    return _read(path, "[", "]", _Window.value)


def read_object(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the (key, value) pairs of a file that is one JSON object. Raises DataFileError if it is not."""
    return _read(path, "{", "}", _Window.pair)


def _read(path: Path, opening: str, closing: str, element: Callable[[_Window], T]) -> Iterator[T]:
    with TextIOWrapper(open_named(path), encoding="utf-8-sig") as file:
        window = _Window(path, file)
        window.expect(opening)
        if window.peek() == closing:
            window.expect(closing)
        else:
            yield element(window)
            while window.expect(f",{closing}") == ",":
                yield element(window)
        window.end()


def import_official(
    folder: str | Path, size: str = "small", cache: str | Path | None = None, products: int | None = None
) -> Path:
    """Convert the original's files in `folder` and return the built folder. Later calls return it at once.

    Args:
        folder: Folder with the files of `size`, and `items_human_ins.json` if human instructions are wanted.
        size: `small` (`items_shuffle_1000.json`, `items_ins_v2_1000.json`) or `full` (`items_shuffle.json`,
            `items_ins_v2.json`).
        cache: Root of the cache (default: `$MAGE_ENVS_CACHE`, else `~/.cache/mage-envs`).
        products: Number of entries to convert, from the start, as the original's `num_products` (default: all).

    Returns:
        The built folder, whose name depends on the files and the options.

    Raises:
        DataFileError: If a file is missing or malformed. The message names the file.
        ValueError: If `size` is unknown or `products` is less than 1.
    """
    source = Path(folder)
    if products is not None and products < 1:
        raise ValueError(f"products={products!r} must be at least 1.")
    if size not in SIZES:
        raise ValueError(f"size={size!r} is unknown for the original's data; choose one of: 'small', 'full'.")
    if not source.is_dir():
        raise DataFileError(f"The folder {source} does not exist; it must contain {SIZES[size].products}.")
    missing = [name for name in SIZES[size] if not (source / name).is_file()]
    if missing:
        raise DataFileError(f"{source} has no {' and no '.join(missing)} (size={size!r}); {WHERE}.")
    used = [source / name for name in (*SIZES[size], HUMAN) if (source / name).is_file()]
    # Size and modification time identify the content. A checksum would read gigabytes at each call.
    marks = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in used]
    key = f"official-{size}-{sha256(repr((FORMAT, marks, products)).encode()).hexdigest()[:24]}"
    root = None if cache is None else Path(cache)
    return build_cached_folder(key, lambda draft: _convert(source, SIZES[size], draft, products), root)


def _convert(source: Path, files: Files, draft: Path, count: int | None) -> dict[str, Any]:
    instructions = _store_instructions(source / files.instructions, draft)
    annotations = dict(_annotations(source / HUMAN))
    try:
        about = write_catalogue(draft, _products(source, files, instructions, annotations, count))
    # DataFileError is a ValueError that already names its file, which may be another one.
    except DataFileError:
        raise
    except ValueError as error:
        raise DataFileError(f"{source / files.products}: {error}.") from error
    # The products contain their attributes now, so the intermediate records are not part of the result.
    for name in ("instructions.bin", "instructions.off.npy", "instructed.npy", "instructed.rank.npy"):
        (draft / name).unlink()
    return about | {"source": {"kind": "official", "files": list(files), "entries": count}}


def _store_instructions(path: Path, draft: Path) -> KeyedRecords:
    """Write the entries of the file of attributes to disk, because a million of them do not fit into memory."""
    with RecordWriter(draft, "instructions", "instructed") as writer:
        for asin, entry in read_object(path):
            if not isinstance(entry, dict):
                raise DataFileError(f"{path}: the entry of {asin} must be an object, got {entry!r:.60}.")
            writer.add(asin, json.dumps(entry).encode())
    if not len(writer):
        raise DataFileError(f"{path} must have at least one entry, got none.")
    return KeyedRecords(draft, "instructions", "instructed")


def _annotations(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if not path.is_file():
        return
    for asin, entries in read_object(path):
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DataFileError(f"{path}: the entry of {asin} must be a list of objects, got {entries!r:.60}.")
        yield asin, entries


def _products(
    source: Path,
    files: Files,
    instructions: KeyedRecords,
    annotations: Mapping[str, list[dict[str, Any]]],
    count: int | None,
) -> Iterator[Product]:
    """Yield the products that the original loads from the first `count` entries.

    Each asin appears once, and no asin is longer than ten characters.
    """
    path = source / files.products
    loaded_flags, other_asins = bytearray(len(instructions)), set[str]()
    for number, raw in enumerate(islice(read_array(path), count)):
        if not isinstance(raw, dict):
            raise DataFileError(f"{path}: entry {number} must be an object, got {raw!r:.60}.")
        try:
            if not is_kept(raw):
                continue
            asin = raw["asin"]
            position = instructions.find(asin)
            if asin in other_asins or (position is not None and loaded_flags[position]):
                continue
            # One byte per product with an entry in the file of attributes. A set of a million names needs 100 MB.
            if position is None:
                other_asins.add(asin)
            else:
                loaded_flags[position] = 1
            about = None if position is None else json.loads(instructions[position])
            yield normalise(raw, about, annotations.get(asin, ()))
        except MalformedAttributes as error:
            raise DataFileError(f"{source / files.instructions}: {error}.") from error
        except MalformedAnnotation as error:
            raise DataFileError(f"{source / HUMAN}: {error}.") from error
        except MalformedProduct as error:
            raise DataFileError(f"{path}, entry {number}: {error}.") from error
