"""Calls that hang, die, raise or need too much memory, importable by worker processes."""

import os
import signal
import subprocess
import sys
import time


def make():
    return call


def broken():
    raise LookupError("nothing to make")


class Keeping:
    """Writes to `path` when it is closed."""

    def __init__(self, path):
        self.path = path

    def __call__(self, number):
        return number + 1

    def close(self):
        self.path.write_text("closed")


def call(kind, *arguments):
    if kind == "add":
        return sum(arguments)
    if kind == "pid":
        return os.getpid()
    if kind == "length":
        return len(arguments[0])
    if kind == "sleep":
        time.sleep(600)
    if kind == "loop":
        while True:
            pass
    if kind == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "exit":
        os._exit(7)
    if kind == "leave":
        raise SystemExit(3)
    if kind == "fill":
        return len(bytearray(8 * 2**30))
    if kind == "child":
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid
    if kind == "function":
        return lambda: None
    raise ArithmeticError("out of numbers")
