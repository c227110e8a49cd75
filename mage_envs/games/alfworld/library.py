"""Private copies of the planner's shared library, one for each engine that is in the middle of a game.

The library keeps its state in global variables, so two engines need two copies of the file; a copy is unlinked as soon
as it is loaded. Unloading one crashes the process when it exits, so a copy is never unloaded: it goes back to the pool
and serves the next engine.
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
"""Room that the library has for a name, in bytes, a closing zero included; it does not check."""
_MOVES_PER_LOAD = 20_000
"""The library keeps every state that it has seen; after so many moves the next start makes it forget them."""


class _Operator(ctypes.Structure):
    """The library's own struct."""

    _fields_ = (("id", ctypes.c_int), ("name", ctypes.c_char * LONGEST_NAME), ("effects", ctypes.c_int))


class _Atom(ctypes.Structure):
    """The library's own struct."""

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
        """The game that is loaded."""

    def start(self, key: str, compressed_sas: bytes) -> None:
        """Puts the game of that key in its first state; reads the SAS text only where another game is loaded.

        The text must be sound: the library ends the process over a bad one.
        """
        if self.key == key and self._moves < _MOVES_PER_LOAD:
            self._library.set_state_id(self._first_state)
            return
        self.key = None
        self._library.load_sas(zlib.decompress(compressed_sas))
        self._first_state = self._library.get_state_id()
        self._moves = 0
        self.key = key

    def applicable(self) -> tuple[int, ...]:
        """The ids of the operators that can be applied now, in the library's order."""
        count = self._library.get_applicable_operators_count()
        if count > len(self._operators):
            self._operators = (_Operator * (2 * count))()
        self._library.get_applicable_operators(self._operators)
        return tuple([self._operators[index].id for index in range(count)])

    def operator(self, index: int) -> tuple[str, int]:
        """(name, number of effects) of the operator at that place of the last `applicable`."""
        operator = self._operators[index]
        return operator.name.decode("cp1252"), operator.effects

    def apply(self, operator: int) -> None:
        """Applies an applicable operator."""
        self._library.apply_operator(operator, None)
        self._moves += 1

    def apply_named(self, operator: int, effects: int) -> tuple[str, ...]:
        """Applies an applicable operator; returns the names of its effects."""
        atoms = (_Atom * effects)()
        self._library.apply_operator(operator, atoms)
        self._moves += 1
        return tuple(atom.name.decode("cp1252") for atom in atoms)

    def state(self) -> tuple[str, ...]:
        """The names of the atoms of the current state, negated ones included."""
        atoms = (_Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        return tuple(atom.name.decode("cp1252") for atom in atoms)

    def won(self) -> bool:
        """Whether the goal holds."""
        return bool(self._library.check_goal())


class LibraryPool:
    """The copies that no engine uses now."""

    def __init__(self) -> None:
        self._free: list[Library] = []
        self._lock = threading.Lock()
        self.made = 0
        """Copies made so far; none is ever unloaded."""

    def take(self, key: str) -> Library:
        """A free copy, one that holds the game of that key if there is one; a new copy where none is free."""
        with self._lock:
            for index in range(len(self._free) - 1, -1, -1):
                if self._free[index].key == key:
                    return self._free.pop(index)
            if self._free:
                return self._free.pop(0)
            self.made += 1
        return Library()

    def give_back(self, library: Library) -> None:
        """Takes a copy back; without the lock, since the garbage collector may call this at any moment."""
        self._free.append(library)

    def forked(self) -> None:
        """Makes the pool usable in a child process, whatever another thread of the parent was doing."""
        self._lock = threading.Lock()


def _load_copy() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libdownward.so"
        path.write_bytes(_loadable_part())
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise OSError(
                f"The planner's library cannot be loaded from the temporary folder {folder} ({error}); "
                "set TMPDIR to a folder on a file system with free space that is not mounted noexec."
            ) from error


@cache
def _loadable_part() -> bytes:
    """The library as far as it is loaded: of an ELF file its segments (1 MB), not the symbols behind them (33 MB)."""
    path = library_path()
    with path.open("rb") as file:
        header = bytearray(file.read(64))
        if header[:6] != b"\x7fELF\x02\x01":
            return path.read_bytes()
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = [struct.unpack("<IIQQQQQQ", file.read(size)) for _ in range(count)]
        file.seek(64)
        end = max(offset + length for _, _, offset, _, _, length, _, _ in segments)
        struct.pack_into("<Q", header, 40, 0)
        struct.pack_into("<HHH", header, 58, 0, 0, 0)
        return bytes(header) + file.read(end - 64)
