"""Tests with the real Ray and a real Slurm: `make ray`, `make slurm`. Without these packages they are skipped."""

from importlib.util import find_spec

import pytest

from tests.benchmarks.executors_work import FUSE, HERE, play_alone
from tests.cluster.slurm_here import Slurm
from tests.processes import ROOT

if find_spec("ray") is None or find_spec("submitit") is None:
    collect_ignore_glob = ["test_*.py"]

EVAL = ["eval", f"policy:{HERE}:DiesOnce", "--panel", "kuhn-paper-128", "--out"]
"""132 meta-episodes."""


@pytest.fixture(autouse=True)
def no_fuse(tmp_path, monkeypatch):
    """Return the path of a file that kills a worker if the test creates it. Workers find the tests' modules."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(FUSE, str(tmp_path / "fuse"))
    return tmp_path / "fuse"


@pytest.fixture(scope="session")
def local_run(tmp_path_factory):
    """The run of one process, with which all others are compared."""
    return play_alone(EVAL, tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="session")
def slurm():
    """A real one, for all tests."""
    with Slurm() as cluster:
        yield cluster
