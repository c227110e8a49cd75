"""Work and policies that executors' tests send to other processes."""

import os
import pickle
import time
from pathlib import Path

HERE = "tests.benchmarks.executors_work"
FUSE = "MAGE_TESTS_FUSE"
"""Names a file. A process that finds the file removes it and kills itself."""
PAUSE = "MAGE_TESTS_PAUSE"
"""Seconds that an answer takes."""


def burn():
    """Kill this process if no process was killed before."""
    try:
        Path(os.environ[FUSE]).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), 9)


class Work:
    """Does what its job says."""

    def __init__(self):
        self.calls = 0

    def __call__(self, job):
        self.calls += 1
        if job == "raise":
            raise ArithmeticError("out of numbers")
        if job == "die":
            os.kill(os.getpid(), 9)
        if job == "die once":
            burn()
        if job == "sleep":
            time.sleep(100)
        if job == "go on" and self.calls < 3:
            return None
        return job, self.calls if job == "go on" else 0


class DiesOnce:
    """A policy that takes the first legal action, and once kills the process that asks it."""

    def reset(self, rng):
        self.rng = rng

    def act(self, turn):
        if turn.episode == 1:
            burn()
        time.sleep(float(os.environ.get(PAUSE, "0")))
        return turn.legal_actions[int(self.rng.integers(len(turn.legal_actions)))]


class Backwards:
    """Do the work here, on pickled copies of the jobs, the last job first."""

    pieces = 4

    def run(self, make, jobs, conditions=None):
        work = pickle.loads(pickle.dumps(make))()
        for index in reversed(range(len(jobs))):
            yield index, work(pickle.loads(pickle.dumps(jobs[index])))


def play_alone(command, folder):
    """Return the records of a `mage` command that runs in this process, where no worker dies."""
    import pytest

    from mage_envs.benchmarks.records.record_store import Records
    from mage_envs.cli.program import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FUSE, str(folder / "no fuse"))
        assert main([*command, str(folder)]) == 0
    return Records(folder)
