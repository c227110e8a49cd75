"""The array job that submitit writes for Slurm; its worker command runs here, as no Slurm is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.executors import Conditions
from benchmarks.executors.slurm import SlurmQueue
from benchmarks.records.store import Records
from mage_envs.processes import Lost, Raised
from tests.benchmarks.executors_work import Work
from tests.cluster.conftest import EVAL

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


@pytest.fixture
def states(tmp_path, monkeypatch):
    """Slurm's commands by name, which run what they are given here; gives the file in which they keep states."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "srun", "sacct", "scancel"):
        (folder / name).symlink_to(Path(__file__).with_name("slurm.sh"))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("SLURM_STATES", str(tmp_path / "states"))
    return tmp_path / "states"


def test_an_evaluation_as_an_array_job(alone, tmp_path, states, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*EVAL, "run", "--executor", "slurm:cpu"]) == 0
    assert Records(tmp_path / "run").root() == alone.root()
    [script] = (tmp_path / "slurm-jobs").glob("*_submission.sh")
    text = script.read_text()
    for line in ("#SBATCH --partition=cpu", "#SBATCH --array=0-14%15", "#SBATCH --cpus-per-task=1"):
        assert line in text.splitlines()
    assert len(states.read_text().splitlines()) == 15


def test_what_is_lost_is_sent_again(tmp_path, states, no_fuse):
    no_fuse.touch()
    queue = SlurmQueue("cpu", tmp_path / "jobs")
    outcomes = dict(queue.run(Work, [1, "raise", "die once"], Conditions(retries=1)))
    assert (outcomes[0], outcomes[2]) == ((1, 0), ("die once", 0))
    assert isinstance(outcomes[1], Raised)
    [lost] = SlurmQueue("cpu", tmp_path / "jobs").run(Work, ["die"], Conditions(retries=0))
    assert isinstance(lost[1], Lost)
    assert "ended as FAILED" in lost[1].reason


def test_without_slurm_it_is_told_in_one_line(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*EVAL, "run", "--executor", "slurm:cpu"]) == 2
    assert "mage-bench: There is no Slurm here (" in capfd.readouterr().err
