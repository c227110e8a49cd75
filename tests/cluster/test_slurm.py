"""Array jobs of a real Slurm: the same records as from one process, even if tasks fail, hang or are cancelled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mage_envs.benchmarks.clusters.slurm import SlurmQueue
from mage_envs.benchmarks.executors.jobs import Conditions
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.processes.call_outcomes import CallError, WorkerLost
from tests.benchmarks.executors_work import PAUSE, Work
from tests.cluster.conftest import EVAL
from tests.cluster.slurm_here import NODES, all_idle, run_command, until

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(120), pytest.mark.filterwarnings("default")]
RUN = [*EVAL, "run", "--executor", "slurm:cpu"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, slurm):
    """The current one, in which jobs keep their files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class BeginsNowhere:
    """Work that cannot be unpickled in the process that it is sent to."""

    def __reduce__(self):
        return int, ("no number",)


def tasks(state="PENDING,RUNNING,COMPLETING"):
    """Those in a state, as JOB_TASK."""
    return run_command("squeue", "--noheader", "--array", f"--states={state}", "--format=%i").split()


def task_states(partition="cpu"):
    """States of all tasks that were ever handed to a partition."""
    accounting = run_command(
        "sacct", "--allocations", "--noheader", "--parsable2", f"--partition={partition}", "--format=JobID,State"
    )
    return dict(line.split("|") for line in accounting.splitlines())


def alongside(act, when=lambda: tasks("RUNNING")):
    """Does it in another thread, once tasks run; returns that thread."""

    def wait_and_act():
        until(when)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_an_evaluation_as_an_array_job(local_run, folder):
    states_before = task_states()
    assert main(RUN) == 0
    assert Records(folder / "run").root() == local_run.root()
    [script] = (folder / "slurm-jobs").glob("*_submission.sh")
    job = script.name.split("_")[0]
    until(lambda: {state for task, state in task_states().items() if task not in states_before} == {"COMPLETED"})
    assert {*task_states()} - {*states_before} == {f"{job}_{task}" for task in range(15)}


def test_a_lost_task_is_sent_again(folder, no_fuse):
    no_fuse.touch()
    outcomes = dict(SlurmQueue("cpu", folder).run(Work, [1, "raise", "die once"], Conditions(retries=1)))
    assert (outcomes[0], outcomes[2]) == ((1, 0), ("die once", 0))
    assert isinstance(outcomes[1], CallError)
    assert str(outcomes[1].error) == "out of numbers"
    [(_, lost)] = SlurmQueue("cpu", folder).run(Work, ["die"], Conditions(retries=0))
    assert isinstance(lost, WorkerLost)
    assert " ended as FAILED; see " in lost.reason
    assert "Killed" in Path(lost.reason.rpartition(" ")[2]).read_text()


def test_work_that_cannot_begin_is_reported(folder):
    [(_, outcome)] = SlurmQueue("cpu", folder).run(Work, [BeginsNowhere()])
    assert isinstance(outcome, CallError)
    assert " could not start. See " in str(outcome.error)
    assert "invalid literal for int() with base 10: 'no number'" in outcome.traceback


def test_time_that_ran_out_is_reported_and_not_given_again(folder, monkeypatch):
    """Slurm ends a task at a limit in whole minutes.

    The test does not wait for it: an administrator lowers the limit.
    """
    queue = SlurmQueue("cpu", folder).run(Work, ["sleep"])
    thread = alongside(
        lambda: [run_command("scontrol", "update", f"JobId={task}", "TimeLimit=0:01") for task in tasks("RUNNING")]
    )
    [(_, lost)] = queue
    thread.join()
    assert (lost.kind, lost.reason.partition("ended as ")[2].partition(";")[0]) == ("hang", "TIMEOUT")


def test_a_node_that_goes_down(local_run, folder, monkeypatch):
    monkeypatch.setenv(PAUSE, "0.05")
    node = NODES[0]
    thread = alongside(lambda: run_command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"))
    try:
        assert main(RUN) == 0
    finally:
        thread.join()
        subprocess.run(
            ["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False
        )  # it may be back already
        until(all_idle)
    until(lambda: "NODE_FAIL" in task_states().values())
    assert Records(folder / "run").root() == local_run.root()


def test_a_task_that_gives_way_is_sent_again(folder):
    """Send a preempted task again, more often than a lost one, if its partition ends preempted jobs."""
    urgent = ["sbatch", "--partition=urgent", "--nodes=4", "--gpus-per-node=8", "--exclusive", "--wrap=sleep 1"]
    thread = alongside(lambda: run_command(*urgent, "--output=urgent"), lambda: len(list(folder.glob("tried-*"))) == 2)
    queue = SlurmQueue("cancelled", folder)
    jobs = dict(queue.run(SlowlyOnce, [0, 1], Conditions(retries=0)))
    thread.join()
    assert jobs == {0: 0, 1: 1}
    expected = ["COMPLETED", "COMPLETED", "PREEMPTED", "PREEMPTED"]
    until(lambda: sorted(task_states("cancelled").values()) == expected)


class SlowlyOnce:
    """Work that takes long if it was not tried before."""

    def __call__(self, job):
        tried = Path(f"tried-{job}")
        if not tried.exists():
            tried.touch()
            time.sleep(100)
        return job


def test_a_cancelled_task_is_left_for_resume(local_run, folder, monkeypatch, capfd):
    monkeypatch.setenv(PAUSE, "0.05")
    thread = alongside(lambda: run_command("scancel", tasks("RUNNING")[0]))
    with pytest.raises(SystemExit, match="3"):
        main(RUN)
    thread.join()
    stderr = capfd.readouterr().err
    assert " ended as CANCELLED; see " in stderr
    assert "were not played: the budget is spent, their workers were lost, or their loop has ended; --resume" in stderr
    monkeypatch.delenv(PAUSE)
    assert main([*RUN, "--resume"]) == 0
    assert Records(folder / "run").root() == local_run.root()


def test_ctrl_c_cancels_what_runs(local_run, folder):
    driver = subprocess.Popen(
        [sys.executable, "-m", "mage_envs", *RUN], env={**os.environ, PAUSE: "1"}, stderr=subprocess.PIPE, text=True
    )
    until(lambda: tasks("RUNNING"))
    driver.send_signal(signal.SIGINT)
    assert "--resume" in driver.communicate()[1]
    assert driver.returncode == 130
    until(lambda: not tasks())
    assert main([*RUN, "--resume"]) == 0
    assert Records(folder / "run").root() == local_run.root()


def test_an_unknown_partition_is_reported_in_one_line(capfd):
    assert main([*EVAL, "run", "--executor", "slurm:gpu"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("mage: Slurm rejected the job: sbatch: error: invalid partition specified: gpu")


def test_without_accounts_it_is_reported_in_one_line(folder, slurm, monkeypatch, capfd):
    text = (slurm.folder / "slurm.conf").read_text()
    (folder / "slurm.conf").write_text(text.replace("accounting_storage/slurmdbd", "accounting_storage/none"))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    assert main(RUN) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("mage: Slurm accounting is not available (Slurm accounting storage is disabled), so")


def test_without_slurm_it_is_reported_in_one_line(capfd, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert main(RUN) == 2
    assert "mage: Slurm is not available on this machine (" in capfd.readouterr().err
