"""Stops a process at any write, fsync or rename, as `kill -9` or a power cut would: for tests of what lies on disk.

`points(act)` lists what `act` does to the disk; `killed(act, n)` runs it anew in a fork that ends at the n-th of these
(a write leaves half of its bytes). A fork after the imports makes each run cheap.
"""

from __future__ import annotations

import builtins
import faulthandler
import gc
import io
import os
import signal
import socket
import stat
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

KILLED = 137
Act = Callable[[], object]


class _Layer:
    """Counts what changes the disk; ends the process at the chosen one."""

    def __init__(self, stop_at: int | None) -> None:
        self.seen: list[str] = []
        self._stop_at = stop_at

    def event(self, kind: str, path: object, half: Act | None = None) -> None:
        self.seen.append(f"{kind} {Path(os.fsdecode(path)).name if isinstance(path, str | bytes | Path) else ''}")
        if len(self.seen) == self._stop_at:
            if half is not None:
                half()
            os._exit(KILLED)

    def install(self) -> None:
        """For good: the process is a fork that ends soon."""
        for name in ("fsync", "rename", "replace", "mkdir", "unlink", "remove", "rmdir", "link", "truncate"):
            self._count(os, name)
        self._count_appends()
        opened = io.open

        def counting_open(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wxa+") or isinstance(file, int) or str(file).startswith("/dev/"):
                return opened(file, mode, buffering, *args, **kwargs)
            raw = _CountedFile(self, file, mode.replace("b", "").replace("t", ""))
            binary: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return raw if buffering == 0 else binary
            return io.TextIOWrapper(binary, *args, **kwargs)

        io.open = builtins.open = counting_open
        if "torch" in sys.modules:
            self._count_libraries()

    def _count(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.event(name, args[0])
            return real(*args, **kwargs)

        setattr(owner, name, counted)

    def _count_appends(self) -> None:
        """What is written into a file without Python's own."""
        real = os.write

        def counted(handle: int, data: Any) -> int:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                self.event("write", "", lambda: real(handle, data[: len(data) // 2]))
            return real(handle, data)

        os.write = counted

    def _count_libraries(self) -> None:
        """What torch and safetensors write without Python's files."""
        import safetensors.torch
        import torch

        def whole_file(owner: Any, name: str, place: int) -> None:
            real = getattr(owner, name)

            def counted(*args: Any, **kwargs: Any) -> Any:
                def half() -> None:
                    real(*args, **kwargs)
                    os.truncate(args[place], os.path.getsize(args[place]) // 2)

                if isinstance(args[place], str | Path):
                    self.event("write", args[place], half)
                return real(*args, **kwargs)

            setattr(owner, name, counted)

        whole_file(torch, "save", 1)
        whole_file(safetensors.torch, "serialize_file", 1)


class _CountedFile(io.FileIO):
    def __init__(self, layer: _Layer, file: Any, mode: str) -> None:
        self._layer = layer
        super().__init__(file, mode)

    def write(self, data: Any) -> int:
        held = bytes(data)
        self._layer.event("write", str(self.name), lambda: io.FileIO.write(self, held[: len(held) // 2]))
        return super().write(held)


def started(act: Act, stop_at: int | None = None, told: Path | None = None) -> int:
    """Runs `act` in a fork of this process; returns its process id. `told` gets the list of what it did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
    if child:
        return child
    try:
        _only(act, stop_at, told)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _only(act: Act, stop_at: int | None, told: Path | None) -> None:
    """What the fork does; it ends without the parent's exit handlers."""
    gc.freeze()  # what the parent made is not searched, which would copy all of its pages
    faulthandler.register(signal.SIGUSR2, file=sys.__stderr__)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    layer = _Layer(stop_at)
    if told is not None or stop_at is not None:
        layer.install()
    act()
    if told is not None:
        os.write(os.open(told, os.O_WRONLY | os.O_CREAT), "\n".join(layer.seen).encode())
    os._exit(0)


def status(child: int) -> int:
    """A fork's exit status, when it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(act: Act, stop_at: int | None = None, told: Path | None = None) -> int:
    """As `started`; returns the exit status."""
    return status(started(act, stop_at, told))


def points(act: Act, told: Path) -> list[str]:
    """All that `act` does to the disk, as `kind name`."""
    assert forked(act, told=told) == 0
    return told.read_text().splitlines()


def killed(act: Act, at: int) -> None:
    """Runs `act` and kills it at its point number `at`, from 1."""
    assert forked(act, stop_at=at) == KILLED


def distinct(found: Sequence[str], kinds: Sequence[str]) -> list[int]:
    """The numbers of the points of some kinds, from 1; an fsync behind another changes nothing."""
    chosen = []
    for number, point in enumerate(found, start=1):
        kind = point.split(" ")[0]
        again = kind == "fsync" and number > 1 and found[number - 2].startswith("fsync")
        if kind in kinds and not again:
            chosen.append(number)
    return chosen


@contextmanager
def reserved_port() -> Iterator[str]:
    """A port of this machine for the store of a group of processes.

    It stays bound until the group has ended, so that no other test gets it. The store may bind it beside this socket,
    because both reuse addresses and this one does not listen.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield str(held.getsockname()[1])


def run_ranks(act: Any, killing: int | None = None, at: int | None = None, told: Path | None = None) -> list[int]:
    """Runs `act` as two ranks; when one ends by itself, the launcher's part is played: the other is killed."""
    with reserved_port() as port:
        return _run_ranks(act, port, killing, at, told)


def _run_ranks(act: Any, port: str, killing: int | None, at: int | None, told: Path | None) -> list[int]:
    ranks = [
        started(
            partial(act, ranks=(str(rank), str(rank), "2", "2", port)),
            at if rank == killing else None,
            told if rank == killing and at is None else None,
        )
        for rank in (0, 1)
    ]
    ended: dict[int, int] = {}
    try:
        while len(ended) < 2:
            child, code = os.wait()
            ended[child] = os.waitstatus_to_exitcode(code)
            if ended[child]:
                break
    finally:
        late = not ended or not any(ended.values())  # the test's own deadline: whoever is left says where it is
        for other in set(ranks) - set(ended):
            if late:
                os.kill(other, signal.SIGUSR2)
                time.sleep(1)
            os.kill(other, signal.SIGKILL)
            ended[other] = status(other)
    return [ended[child] for child in ranks]
