"""The template that trains on a Slurm cluster, submitted to a real one: started, stopped and requeued."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from mage_envs.trainer.config.hardware import hardware, hardware_names
from tests.cluster.slurm_here import all_idle, run_command, until
from tests.docs.test_hardware_page import PAGE
from tests.test_readme import blocks
from tests.trainer.tiny_runs import flags

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]
WORDS = ["--model", "words", "--env_id", "mage/KuhnPoker-Meta-v0"]
LONG = [*WORDS, *flags(groups_per_rollout=4, num_generations=4, updates_per_rollout=1, max_rollouts=60)]
"""A run whose weights change, and which takes long enough to be stopped."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, slurm):
    """The current one; jobs find this Python's commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path
    run_command("scancel", "--name=mage train")
    until(all_idle, 120)


def submit_job(name, *arguments, options=()):
    """The job of a run as `--dry-run` says how to submit it, with these options of sbatch in place of its own."""
    sbatch, *words = shlex.split(hardware(name).launch()["slurm"])
    return run_command(sbatch, "--parsable", *words[:-3], *options, *words[-3:], *arguments)


def facts(job):
    """Return Slurm's fields of a job."""
    return dict(
        word.split("=", 1) for word in run_command("scontrol", "show", "job", "--oneliner", job).split() if "=" in word
    )


def states(job):
    """Of all its lives, from the first."""
    output = run_command("sacct", "-X", "--duplicates", "--noheader", "--parsable2", f"--jobs={job}", "--format=State")
    return output.split("\n")


def wait_for_end(job, seconds=300):
    """Waits; its state."""
    until(lambda: facts(job)["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), seconds)
    return facts(job)["JobState"]


def has_trained(folder):
    """Return True if a rollout is in the log of a run."""
    log = Path(folder, "metrics.jsonl")
    return log.exists() and log.read_text()


def goes_on(job):
    """Waits until the job is queued again, and shortens the two minutes that Slurm lets it wait, until its nodes have
    no doubt that it is another one."""
    until(lambda: facts(job)["JobState"] == "PENDING" and facts(job)["Restarts"] == "1", 120)
    time.sleep(8)
    run_command("scontrol", "update", f"JobId={job}", "StartTime=now", "TimeLimit=1-00:00:00")


def learnt(folder):
    """The model's bytes, and of each rollout the score."""
    rows = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return Path(folder, "model.safetensors").read_bytes(), [row.get("reward") for row in rows]


@pytest.mark.parametrize("name", [name for name in hardware_names() if name != "cpu"])
def test_every_kind_is_granted_and_started(name):
    machine = hardware(name)
    job = submit_job(name, "--preset", "mage-kuhn", "--output_dir", "run")
    until(lambda: f"{job}.0" in run_command("squeue", "--steps", "--noheader", "--format=%i"))
    granted = facts(job)
    assert granted["NumNodes"] == str(machine.nodes)
    assert granted["NumCPUs"] == str(8 * machine.processes)
    assert granted["TresPerNode"] == f"gres:gpu:{machine.devices}"
    run_command("scancel", job)
    assert wait_for_end(job) == "CANCELLED"


def test_four_nodes_with_too_few_gpus_are_refused_once():
    """Up to the trainer in the first of four processes, each of a node of its own, which have found each other."""
    options = ["--gpus-per-node=1", "--cpus-per-task=8", "--output=log"]
    job = submit_job("4x8x80gb", "--preset", "mage-kuhn", "--output_dir", "run", options=options)
    assert wait_for_end(job) == "FAILED"
    [line] = [line for line in Path("log").read_text().splitlines() if line.startswith("mage: ")]
    assert line.startswith(
        "mage: a run on --hardware 4x8x80gb requires 32 processes, but 4 were started; start it with"
    )
    assert "`sbatch --nodes=4 " in line


def test_the_page_s_commands_as_printed(folder):
    """Of docs/hardware.md; the first job trains to its end, the others are cancelled."""
    [text] = [block.text for block in blocks(PAGE) if "sbatch" in block.text]
    (folder / "commands").write_text(text)
    jobs = [line.split()[-1] for line in run_command("bash", "-eu", "commands").splitlines()]
    assert len(jobs) == text.count("sbatch ") == 4
    run_command("scancel", *jobs[1:])
    assert [wait_for_end(job) for job in jobs] == ["COMPLETED", "CANCELLED", "CANCELLED", "CANCELLED"]
    assert (folder / "runs" / "words" / "model.safetensors").exists()


@pytest.fixture(scope="module")
def complete_run(slurm, tmp_path_factory):
    """An unbroken run on one CPU, not by Slurm."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run_command(sys.executable, "-m", "mage_envs", "train", "--hardware", "cpu", *LONG, "--output_dir", str(out))
    return learnt(out)


def test_a_job_that_gives_way_is_queued_again_and_ends_as_if_it_had_not(complete_run):
    job = submit_job("cpu", *LONG, "--output_dir", "run", options=["--output=log"])
    until(lambda: has_trained("run"), 120)
    urgent = ["sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=urgent", "--wrap=sleep 1"]
    run_command(*urgent)
    goes_on(job)
    assert wait_for_end(job) == "COMPLETED"
    log = Path("log").read_text()
    assert "Stopped by SIGTERM after " in log
    assert "Finished after 60 updates" in log
    assert learnt("run") == complete_run


def test_two_stopped_nodes_resume_as_if_they_had_not_stopped():
    """Stop a training of two nodes with accelerate on each. Accelerate exits with status 1 on every signal."""
    sbatch, *arguments = shlex.split(hardware("8x80gb").launch()["slurm"])
    options = ["--parsable", "--nodes=2", "--gpus-per-node=1", "--cpus-per-task=8", "--output=log"]
    for name in ("whole", "run"):
        job = run_command(sbatch, *options, *arguments[:-2], *LONG, "--output_dir", name)
        if name == "run":
            until(lambda: has_trained("run"), 120)
            run_command("scancel", "--signal=TERM", job)
            goes_on(job)
        assert wait_for_end(job) == "COMPLETED"
    log = Path("log").read_text()
    assert log.count("Stopped by SIGTERM after ") == 1
    assert log.count("Finished after 60 updates") == 2
    assert learnt("run") == learnt("whole")


def test_ten_minutes_before_its_end_a_job_is_signalled_and_requeued():
    endless = [*LONG, "--max_rollouts", "100000", "--output_dir", "run"]
    job = submit_job("cpu", *endless, options=["--time=11", "--output=log"])
    until(lambda: facts(job)["JobState"] == "PENDING" and facts(job)["Restarts"] == "1", 200)
    assert "Stopped by SIGTERM after " in Path("log").read_text()
    assert list(Path("run").glob("checkpoint-*"))


def test_a_job_that_is_cancelled_is_not_queued_again():
    job = submit_job("cpu", *LONG, "--output_dir", "run", options=["--output=log"])
    until(lambda: has_trained("run"), 120)
    run_command("scancel", job)
    assert wait_for_end(job) == "CANCELLED"
    until(all_idle)
    assert [state.split()[0] for state in states(job)] == ["CANCELLED"]
