"""The lock of files: one function for both systems, and WebShop's cache without `fcntl`."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from mage_envs.files.locking import file_lock

WINDOWS = """
import multiprocessing.util, subprocess, sys, types
import fcntl
record = fcntl.lockf

def locking(file, mode, count):
    # Windows: the byte range from the current position, and EACCES if another process has it.
    import os
    try:
        record(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(file, 0, os.SEEK_CUR))
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2, __spec__=types.SimpleNamespace())
sys.modules["fcntl"] = None
"""
"""Code that gives a process the locks of Windows, made of POSIX locks of a range."""
NEITHER = "import sys; sys.modules['fcntl'] = None\n"
HOLD = """
from pathlib import Path
from mage_envs.files.locking import file_lock
with file_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""
TRY = """
import os
from mage_envs.files.locking import lock_file
print(lock_file(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)))
"""


def run(code, *arguments):
    process = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize("system", ["import sys\n", WINDOWS])
def test_another_process_waits(tmp_path, system):
    path = tmp_path / "key.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", system + HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    assert run(system + TRY, str(path)) == "False"
    holder.communicate("\n")
    assert run(system + TRY, str(path)) == "True"


@pytest.mark.parametrize("system", [WINDOWS, NEITHER])
def test_webshop_works_without_fcntl(tmp_path, system, monkeypatch):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    code = (
        "import gymnasium as gym, mage_envs\n"
        "env = gym.make('mage/WebShop-v0', size='tiny')\n"
        "print(len(env.reset(seed=0)[0]) > 0)"
    )
    assert run(system + code) == "True"
    assert list(tmp_path.rglob("*.lock"))


def test_threads_of_a_process_wait_for_each_other(tmp_path):
    inside, counts_inside = [], []

    def hold():
        with file_lock(tmp_path / "key.lock"):
            inside.append(1)
            counts_inside.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts_inside == [1] * 5
