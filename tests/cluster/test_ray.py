"""Ray clusters on this machine: the same records as from one process, even if workers die."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest
import ray
from ray.cluster_utils import Cluster

from mage_envs.benchmarks.clusters.ray_cluster import RayCluster
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.processes.call_outcomes import CallError, WorkerLost
from mage_envs.trainer.backends.play_settings import PlaySettings
from tests.benchmarks.executors_work import FUSE, PAUSE, Work
from tests.cluster.conftest import EVAL
from tests.processes import ROOT
from tests.trainer.tiny_runs import save_model

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a cluster of one node with one CPU, with a few retries on a busy machine.

    Its workers start slowly, and a worker that finds the file `fuse` is killed.
    """
    fuse = tmp_path_factory.mktemp("cluster") / "fuse"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PYTHONPATH", str(ROOT)), (FUSE, str(fuse)), (PAUSE, "0.01")):
            patch.setenv(name, value)
        ray_cluster = _start_cluster()
        ray_cluster.fuse = fuse
        yield ray_cluster
        ray.shutdown()
        ray_cluster.shutdown()


def _start_cluster(tries=3):
    ray_cluster = Cluster()
    try:
        ray_cluster.add_node(num_cpus=1)
    except Exception:  # Ray has no other word for a node that is late
        ray_cluster.shutdown()
        if tries == 1:
            raise
        return _start_cluster(tries - 1)
    return ray_cluster


def test_one_node_with_a_worker_killed(local_run, tmp_path, cluster):
    cluster.fuse.touch()
    assert main([*EVAL, str(tmp_path / "run"), "--executor", f"ray:{cluster.address}"]) == 0
    assert not cluster.fuse.exists()
    assert Records(tmp_path / "run").root() == local_run.root()


def test_each_result_comes_once(cluster):
    cluster.fuse.touch()
    jobs = [1, "raise", "die", "die once", 2]
    outcomes = dict(RayCluster(cluster.address).run(Work, jobs))
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert [outcomes[index] for index in (0, 3, 4)] == [(1, 0), ("die once", 0), (2, 0)]
    assert not cluster.fuse.exists()
    assert isinstance(outcomes[1], CallError)
    assert str(outcomes[1].error) == "out of numbers"
    assert isinstance(outcomes[2], WorkerLost)
    assert outcomes[2].reason.startswith("its Ray worker died: WorkerCrashedError")


def test_two_nodes_one_of_which_is_killed_on_the_way(local_run, tmp_path, cluster):
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    folder = tmp_path / "run"

    def kill_when_some_is_written():
        while not (folder / "episodes" / "00000.jsonl.gz").exists():
            time.sleep(0.05)
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill_when_some_is_written)
    killer.start()
    assert main([*EVAL, str(folder), "--executor", f"ray:{cluster.address}"]) == 0
    killer.join()
    assert Records(folder).root() == local_run.root()


def test_a_killed_driver_leaves_a_run_that_can_be_resumed(local_run, tmp_path, cluster):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "mage_envs", *EVAL, str(folder), "--executor", f"ray:{cluster.address}"]
    driver = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    while not (folder / "episodes" / "00000.jsonl.gz").exists():
        assert driver.poll() is None
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(Records(folder).lines) == 64
    assert main([*EVAL, str(folder), "--resume", "--executor", "ray"]) == 0  # one that this command starts
    assert Records(folder).root() == local_run.root()


def test_a_tournament(tmp_path, cluster):
    command = ["tournament", "KuhnPoker", "--opponents", "uniform,kuhn/nash", "--games", "10", "--out"]
    assert main([*command, str(tmp_path / "ray"), "--executor", f"ray:{cluster.address}"]) == 0
    assert main([*command, str(tmp_path / "here"), "--executor", "local"]) == 0
    assert (tmp_path / "ray" / "tournament.json").read_bytes() == (tmp_path / "here" / "tournament.json").read_bytes()


def test_a_model_is_asked_by_exploit(tmp_path, cluster, monkeypatch):
    folder = save_model(tmp_path / "model")
    PlaySettings("mage/KuhnPoker-Meta-v0", {"style": "words"}, 1, 1.0, constrained=True).save(folder)
    monkeypatch.setattr("mage_envs.wrappers.rollout.exploitability.BATCH", 20)  # 48 answers: three tasks
    command = ["exploit", folder, "--samples", "4", "--out"]
    assert main([*command, str(tmp_path / "ray.json"), "--executor", f"ray:{cluster.address}"]) == 0
    assert main([*command, str(tmp_path / "here.json")]) == 0
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "here.json").read_bytes()


def test_a_cluster_that_does_not_answer_is_reported_in_one_line(tmp_path, capfd):
    assert main([*EVAL, str(tmp_path / "run"), "--executor", "ray:127.0.0.1:9"]) == 2
    messages = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mage: ")]
    assert len(messages) == 1
    assert messages[0].startswith("mage: The Ray cluster at 127.0.0.1:9 does not answer (")
