"""Readers for a folder of unknown origin: they read regular files inside the folder, up to a limit of size."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mage_envs.files.atomic import NO_FOLLOW, draft_beside, sync

MAX_FILE_BYTES = 64 * 2**20
"""Limit in bytes of a JSON file, and of one line."""
MAX_UNPACKED_BYTES = 512 * 2**20
"""Limit in bytes of all lines of one compressed file. The writer closes a shard at a quarter of this."""


MAX_YAML_BYTES = 2**20
"""Limit in bytes of a YAML file, which is parsed at a megabyte per second or slower."""
MAX_YAML_VALUES = 10_000
"""Limit of the values in a YAML file after its aliases are replaced. A file of 500 bytes can stand for a billion."""


class UnsafeFile(ValueError):
    """Error for a file that must not be read: a link out of its folder, not a regular file, or too large."""


class DamagedFile(ValueError):
    """Error for a compressed file that was read to its end, or to a damaged part."""


def open_inside(folder: Path, name: str) -> BinaryIO:
    """Open a regular file of a folder.

    Args:
        folder: Folder that must contain the file, after links are resolved.
        name: Path relative to the folder.

    Raises:
        FileNotFoundError: If the file does not exist.
        UnsafeFile: If it is a link out of the folder, a pipe, a device or a folder.
    """
    path = folder / name
    real = path.resolve(strict=True)
    if not real.is_relative_to(folder.resolve()):
        raise UnsafeFile(f"{path} is a link to {str(real)!r}, outside the folder.")
    # Without NO_FOLLOW, opening a named pipe waits for a writer that never comes.
    handle = os.open(real, os.O_RDONLY | NO_FOLLOW | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnsafeFile(f"{path} is not a regular file.")
    return os.fdopen(handle, "rb")


def read_inside(folder: Path, name: str, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file of a folder.

    Args:
        folder: Folder that must contain the file, after links are resolved.
        name: Path relative to the folder.
        limit: Limit of size in bytes.

    Raises:
        FileNotFoundError: If the file does not exist.
        UnsafeFile: If `open_inside` refuses the file, or if it is larger than `limit`.
    """
    with open_inside(folder, name) as file:
        return _content(file, folder / name, limit)


def open_named(path: Path) -> BinaryIO:
    """Open a regular file that the user named, where a link may lead anywhere.

    Raises:
        OSError: If the file does not exist, is a folder or cannot be opened.
        UnsafeFile: If it is a pipe or a device.
    """
    real = path.resolve(strict=True)
    if real.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return open_inside(real.parent, real.name)


def read_named(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file that the user named. Raises like `open_named`, or UnsafeFile by size."""
    with open_named(path) as file:
        return _content(file, path, limit)


def _content(file: BinaryIO, path: Path, limit: int) -> bytes:
    # One byte more than allowed: the size that the file system reports could change while the file is read.
    content = file.read(limit + 1)
    if len(content) > limit:
        raise UnsafeFile(f"{path} has more than {limit >> 20} MB.")
    return content


def read_json_inside(folder: Path, name: str) -> Any:
    """Return the JSON value in a file of a folder. Raises like `read_inside`, or ValueError with the file's name."""
    content = read_inside(folder, name)
    try:
        return parse_json(content)
    except ValueError as error:
        raise ValueError(f"{folder / name} cannot be read as JSON ({error}).") from error


def parse_json(content: bytes | str) -> Any:
    """Return the JSON value. Raises ValueError for anything else, and for deep nesting."""
    try:
        return json.loads(content)
    except RecursionError:
        # RecursionError is a RuntimeError; callers treat every bad file as a ValueError.
        raise ValueError("it is nested too deeply") from None


def read_yaml(path: Path) -> Any:
    """Return the value in a YAML file that the user named, with plain types only.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is no YAML, or too large, also after its aliases are replaced. The message names the file.
    """
    # Imported here, because only commands of the extra `train` read YAML.
    import yaml

    try:
        value = yaml.safe_load(read_named(path, MAX_YAML_BYTES).decode())
        if _count_values(value, {}) > MAX_YAML_VALUES:
            raise ValueError(f"it has more than {MAX_YAML_VALUES} values")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())[:300]}.") from error
    return value


def _count_values(value: Any, counts: dict[int, int]) -> int:
    """Return the number of values in a YAML value, where an alias counts as all values that it stands for."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        # A value that contains itself is as large as any.
        counts[id(value)] = MAX_YAML_VALUES + 1
        items = (*value, *value.values()) if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count_values(item, counts) for item in items)
    return counts[id(value)]


def lines_inside(folder: Path, name: str) -> Iterator[bytes]:
    """Yield the lines of a file of a folder, of a compressed one if its name ends with `.gz`.

    Raises:
        UnsafeFile: If a line has more than `MAX_FILE_BYTES`, or all lines of a compressed file together more than
            `MAX_UNPACKED_BYTES`. A file of 6 MB can unpack to 6 GB, so this is counted while it is unpacked.
        DamagedFile: If the file is damaged.
        OSError: If the file cannot be read now, for example because its disk or its server has a fault.
    """
    unpacked = 0
    try:
        packed = name.endswith(".gz")
        with open_inside(folder, name) as file, gzip.open(file, "rb") if packed else file as lines:
            # readline with a bound, because iteration would first unpack a line of any length.
            while raw := lines.readline(MAX_FILE_BYTES + 1):
                unpacked += len(raw)
                if len(raw) > MAX_FILE_BYTES:
                    raise UnsafeFile(f"a line has more than {MAX_FILE_BYTES >> 20} MB")
                if packed and unpacked > MAX_UNPACKED_BYTES:
                    raise UnsafeFile(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 20} MB")
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFile(f"it is damaged ({error})") from error


def names_inside(folder: Path, name: str) -> list[str]:
    """Return the sorted names in a subfolder, or an empty list if it does not exist.

    Raises:
        UnsafeFile: If it is a link, because what is written there would be outside of the folder.
        OSError: If it cannot be listed.
    """
    path = folder / name
    if path.is_symlink():
        raise UnsafeFile(f"{path} is a link to {str(path.resolve())!r}; make {folder} the link instead")
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


def copy_inside(folder: Path, name: str, copy: Path) -> None:
    """Copy a regular file of a folder to `copy`, which is complete or absent. Raises like `open_inside`, or OSError."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_beside(copy)
    try:
        with open_inside(folder, name) as file, draft.open("xb") as target:
            shutil.copyfileobj(file, target)
            target.flush()
            os.fsync(target.fileno())
        draft.replace(copy)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(copy.parent)
