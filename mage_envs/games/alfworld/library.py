"""Private copies of the planner's shared library, one for each engine with a running game.

The library keeps its state in global variables, so two engines need two copies of the file. A copy is deleted from disk
as soon as it is loaded. Unloading a copy crashes the process at its exit, so a copy is never unloaded. It returns to
the pool and serves the next engine.
"""

from __future__ import annotations

import ctypes
import struct
import tempfile
import threading
import zlib
from functools import cache
from pathlib import Path

from mage_envs.games.alfworld.packages import library_path

LONGEST_NAME = 1024
"""Size of the library's buffer for a name in bytes, with the closing zero. The library does not check it."""
_MOVES_PER_LOAD = 20_000
"""Moves before a start reloads the game. The library stores every state that it visits, and a reload frees them."""


class _Operator(ctypes.Structure):
    """The library's struct of an operator."""

    _fields_ = (("id", ctypes.c_int), ("name", ctypes.c_char * LONGEST_NAME), ("effects", ctypes.c_int))


class _Atom(ctypes.Structure):
    """The library's struct of a fact."""

    _fields_ = (("name", ctypes.c_char * LONGEST_NAME),)


class Library:
    """One copy of the library: the state of one running game."""

    def __init__(self) -> None:
        self._library = _load_copy()
        self._library.load_sas.argtypes = [ctypes.c_char_p]
        self._library.check_goal.restype = ctypes.c_bool
        self._operators = (_Operator * 64)()
        self._first_state = 0
        self._moves = 0
        self.key: str | None = None
        """Key of the loaded game."""

    def start(self, key: str, compressed_sas: bytes) -> None:
        """Set the game of that key to its first state. Read the SAS text only if another game is loaded.

        The text must be valid, because the library ends the process if it is not.
        """
        if self.key == key and self._moves < _MOVES_PER_LOAD:
            self._library.set_state_id(self._first_state)
            return
        self.key = None
        # The key is None until the load is complete, so an interrupted load is repeated.
        self._library.load_sas(zlib.decompress(compressed_sas))
        self._first_state = self._library.get_state_id()
        self._moves = 0
        self.key = key

    def applicable(self) -> tuple[int, ...]:
        """Return the ids of the operators that can be applied now, in the library's order."""
        count = self._library.get_applicable_operators_count()
        # The library does not know the size of the array and would write past its end.
        if count > len(self._operators):
            self._operators = (_Operator * (2 * count))()
        self._library.get_applicable_operators(self._operators)
        return tuple([self._operators[index].id for index in range(count)])

    def operator(self, index: int) -> tuple[str, int]:
        """Return (name, number of effects) of the operator at that index of the last `applicable`."""
        operator = self._operators[index]
        # The encoding of fast_downward's own Python interface.
        return operator.name.decode("cp1252"), operator.effects

    def apply(self, operator: int) -> None:
        """Apply an applicable operator."""
        self._library.apply_operator(operator, None)
        self._moves += 1

    def apply_named(self, operator: int, effects: int) -> tuple[str, ...]:
        """Apply an applicable operator and return the names of its effects."""
        atoms = (_Atom * effects)()
        self._library.apply_operator(operator, atoms)
        self._moves += 1
        return tuple(atom.name.decode("cp1252") for atom in atoms)

    def state(self) -> tuple[str, ...]:
        """Return the names of the atoms of the current state, including negated ones."""
        atoms = (_Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        return tuple(atom.name.decode("cp1252") for atom in atoms)

    def goal_holds(self) -> bool:
        """Return True if the goal holds."""
        return bool(self._library.check_goal())


class LibraryPool:
    """The copies of the library that no engine uses."""

    def __init__(self) -> None:
        self._free: list[Library] = []
        self._lock = threading.Lock()
        self.made = 0
        """Copies made so far. None is ever unloaded."""

    def take(self, key: str) -> Library:
        """Return a free copy, preferably one that has loaded the game of that key. Make one if none is free."""
        with self._lock:
            for index in range(len(self._free) - 1, -1, -1):
                if self._free[index].key == key:
                    return self._free.pop(index)
            if self._free:
                # The oldest copy: the games of recently used copies are more likely to be needed again.
                return self._free.pop(0)
            self.made += 1
        # Outside of the lock, because loading the file takes time.
        return Library()

    def give_back(self, library: Library) -> None:
        """Put a copy back into the pool."""
        # Without the lock: the garbage collector may call this while the same thread holds it. An append is atomic.
        self._free.append(library)

    def replace_lock(self) -> None:
        """Replace the lock in a child process: another thread of the parent may have held it during the fork."""
        self._lock = threading.Lock()


def _load_copy() -> ctypes.CDLL:
    # The loader shares the globals of two loads of one path, so each copy needs its own file.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libdownward.so"
        path.write_bytes(_loadable_part())
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise OSError(
                f"Cannot load the planner's library from the temporary folder {folder} ({error}). "
                "Set TMPDIR to a folder on a file system with free space that is not mounted noexec."
            ) from error


@cache
def _loadable_part() -> bytes:
    """Return the bytes that are loaded: the segments of an ELF file (1 MB), not the symbols after them (33 MB)."""
    path = library_path()
    with path.open("rb") as file:
        header = bytearray(file.read(64))
        # ELF magic number, 64-bit class, little endian. The offsets below are those of that header.
        if header[:6] != b"\x7fELF\x02\x01":
            return path.read_bytes()
        # e_phoff, then e_phentsize and e_phnum: the table of the program headers.
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = [struct.unpack("<IIQQQQQQ", file.read(size)) for _ in range(count)]
        file.seek(64)
        end = max(offset + length for _, _, offset, _, _, length, _, _ in segments)
        # Set e_shoff, e_shentsize, e_shnum and e_shstrndx to 0: the file no longer has sections.
        struct.pack_into("<Q", header, 40, 0)
        struct.pack_into("<HHH", header, 58, 0, 0, 0)
        return bytes(header) + file.read(end - 64)
