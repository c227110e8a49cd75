"""Stops a process at any write, fsync or rename, as `kill -9` or a power cut would, to test the files on disk.

`points(act)` lists the calls of `act` that change the disk. `kill_at(act, n)` runs `act` again in a fork that ends at
the n-th of these calls (a write leaves half of its bytes). A fork after the imports makes each run cheap.
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

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.event(name, args[0])
            return real(*args, **kwargs)

        setattr(owner, name, counting)

    def _count_appends(self) -> None:
        """Count the writes into files that bypass Python's own."""
        real = os.write

        def counting_write(handle: int, data: Any) -> int:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                self.event("write", "", lambda: real(handle, data[: len(data) // 2]))
            return real(handle, data)

        os.write = counting_write

    def _count_libraries(self) -> None:
        """Count the writes of torch and safetensors without Python's files."""
        import safetensors.torch
        import torch

        def whole_file(owner: Any, name: str, position: int) -> None:
            real = getattr(owner, name)

            def counting(*args: Any, **kwargs: Any) -> Any:
                def half() -> None:
                    real(*args, **kwargs)
                    os.truncate(args[position], os.path.getsize(args[position]) // 2)

                if isinstance(args[position], str | Path):
                    self.event("write", args[position], half)
                return real(*args, **kwargs)

            setattr(owner, name, counting)

        whole_file(torch, "save", 1)
        whole_file(safetensors.torch, "serialize_file", 1)


class _CountedFile(io.FileIO):
    def __init__(self, layer: _Layer, file: Any, mode: str) -> None:
        self._layer = layer
        super().__init__(file, mode)

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._layer.event("write", str(self.name), lambda: io.FileIO.write(self, content[: len(content) // 2]))
        return super().write(content)


def start_fork(act: Act, stop_at: int | None = None, report: Path | None = None) -> int:
    """Run `act` in a fork of this process and return its process id. `report` gets the list of its calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
    if child:
        return child
    try:
        _only(act, stop_at, report)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _only(act: Act, stop_at: int | None, report: Path | None) -> None:
    """Run `act` in the fork, which ends without the parent's exit handlers."""
    gc.freeze()  # the parent's objects are not searched, which would copy all of their pages
    faulthandler.register(signal.SIGUSR2, file=sys.__stderr__)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    layer = _Layer(stop_at)
    if report is not None or stop_at is not None:
        layer.install()
    act()
    if report is not None:
        os.write(os.open(report, os.O_WRONLY | os.O_CREAT), "\n".join(layer.seen).encode())
    os._exit(0)


def status(child: int) -> int:
    """A fork's exit status, when it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_in_fork(act: Act, stop_at: int | None = None, report: Path | None = None) -> int:
    """As `start_fork`; returns the exit status."""
    return status(start_fork(act, stop_at, report))


def points(act: Act, report: Path) -> list[str]:
    """All that `act` does to the disk, as `kind name`."""
    assert run_in_fork(act, report=report) == 0
    return report.read_text().splitlines()


def kill_at(act: Act, at: int) -> None:
    """Runs `act` and kills it at its point number `at`, from 1."""
    assert run_in_fork(act, stop_at=at) == KILLED


def distinct(point_names: Sequence[str], kinds: Sequence[str]) -> list[int]:
    """The numbers of the points of some kinds, from 1; an fsync behind another changes nothing."""
    numbers = []
    for number, point in enumerate(point_names, start=1):
        kind = point.split(" ")[0]
        is_repeated = kind == "fsync" and number > 1 and point_names[number - 2].startswith("fsync")
        if kind in kinds and not is_repeated:
            numbers.append(number)
    return numbers


@contextmanager
def reserve_port() -> Iterator[str]:
    """A port of this machine for the store of a group of processes.

    It stays bound until the group has ended, so that no other test gets it. The store may bind it beside this socket,
    because both reuse addresses and this one does not listen.
    """
    with socket.socket() as reserving_socket:
        reserving_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving_socket.bind(("127.0.0.1", 0))
        yield str(reserving_socket.getsockname()[1])


def run_ranks(act: Any, killing: int | None = None, at: int | None = None, report: Path | None = None) -> list[int]:
    """Runs `act` as two ranks; when one ends by itself, the launcher's part is played: the other is killed."""
    with reserve_port() as port:
        return _run_ranks(act, port, killing, at, report)


def _run_ranks(act: Any, port: str, killing: int | None, at: int | None, report: Path | None) -> list[int]:
    ranks = [
        start_fork(
            partial(act, ranks=(str(rank), str(rank), "2", "2", port)),
            at if rank == killing else None,
            report if rank == killing and at is None else None,
        )
        for rank in (0, 1)
    ]
    statuses: dict[int, int] = {}
    try:
        while len(statuses) < 2:
            child, code = os.wait()
            statuses[child] = os.waitstatus_to_exitcode(code)
            if statuses[child]:
                break
    finally:
        late = not statuses or not any(statuses.values())  # the test's own deadline: print the stacks
        for other_rank in set(ranks) - set(statuses):
            if late:
                os.kill(other_rank, signal.SIGUSR2)
                time.sleep(1)
            os.kill(other_rank, signal.SIGKILL)
            statuses[other_rank] = status(other_rank)
    return [statuses[child] for child in ranks]
