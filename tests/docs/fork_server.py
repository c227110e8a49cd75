"""The program `mage` for a test's subprocesses, executed in forks of the test's process, which has loaded torch."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from mage_envs.cli import program
from tests.interruptions import run_in_fork

CLIENT = """#!{python} -ISu
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([["mage", *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(call)
    sys.exit(int(server.makefile().read()))
"""


@contextmanager
def fork_mage(folder: Path) -> Iterator[Path]:
    """Yields a folder for PATH whose `mage` runs in a fork, with the caller's arguments, folder, variables and streams.

    Loading torch and transformers takes a new process seconds.
    """
    # Loaded before the forks, also if a test is run alone.
    import_module("mage_envs.trainer.trl.mage_trainer")
    folder.mkdir()
    program, address = folder / "mage", str(folder / "socket")
    program.write_text(CLIENT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        serving = threading.Thread(target=_serve, args=(listening,))
        serving.start()
        try:
            yield folder
        finally:
            # Ends `accept`, which closing the socket does not.
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


def _serve(listening: socket.socket) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        with client, client.makefile("rb") as content:
            size, streams, _, _ = socket.recv_fds(client, 4, 3)
            words, cwd, variables = json.loads(content.read(int.from_bytes(size, "big")))
            code = run_in_fork(partial(run_mage, words, cwd, variables, streams))
            for stream in streams:
                os.close(stream)
            client.sendall(str(code).encode())


def call_mage(command: str, folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a fork of this process, as `subprocess.run` does in a new process.

    The fork knows no module of the folder if no earlier command ran in this process itself.
    """
    words = shlex.split(command)
    files = [folder / name for name in ("stdin.txt", "stdout.txt", "stderr.txt")]
    files[0].write_text(typed)
    flags = (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC] * 2)
    streams = [os.open(path, flag) for path, flag in zip(files, flags, strict=True)]
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    assert words[0] == "mage"
    # Loaded before the fork, also if a file is tested alone.
    import_module("mage_envs.trainer.trl.mage_trainer")
    status = run_in_fork(partial(run_mage, words, str(folder), variables, streams))
    for stream in streams:
        os.close(stream)
    return subprocess.CompletedProcess(command, status, files[1].read_text(), files[2].read_text())


def run_mage(words: Sequence[str], cwd: str, variables: Mapping[str, str], streams: Sequence[int]) -> None:
    """Do the work of the console script, and end the process."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    sys.argv = [*words]
    status = program.mage()
    for written in (sys.stdout, sys.stderr):
        written.flush()
    os._exit(status)
