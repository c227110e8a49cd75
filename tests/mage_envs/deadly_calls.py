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


def call(what, *arguments):
    if what == "add":
        return sum(arguments)
    if what == "pid":
        return os.getpid()
    if what == "length":
        return len(arguments[0])
    if what == "sleep":
        time.sleep(600)
    if what == "loop":
        while True:
            pass
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "exit":
        os._exit(7)
    if what == "leave":
        raise SystemExit(3)
    if what == "fill":
        return len(bytearray(8 * 2**30))
    if what == "child":
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid
    if what == "function":
        return lambda: None
    raise ArithmeticError("out of numbers")
