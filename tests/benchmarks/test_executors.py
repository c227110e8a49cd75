"""Executors: every result once, lost workers replaced, and the same records wherever they were played."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from mage_envs.benchmarks import make_agent
from mage_envs.benchmarks.chaos.processes import CheckRow, Found
from mage_envs.benchmarks.clusters.remote import pack_work
from mage_envs.benchmarks.evaluation.run import evaluate
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.exact.headroom_table import Setup, solve_rows
from mage_envs.benchmarks.executors.jobs import Conditions, run_in_order, unwrap
from mage_envs.benchmarks.executors.naming import make_executor
from mage_envs.benchmarks.executors.on_this_machine import Local, Processes
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.lines import encode_line
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.benchmarks.runs import measuring
from mage_envs.benchmarks.runs.distributed import Playing
from mage_envs.cli.program import main
from mage_envs.processes.call_outcomes import CRASH, HANG, CallError, WorkerFailure, WorkerLost
from tests.benchmarks.executors_work import FUSE, HERE, Backwards, Work, play_alone

EVAL = ["eval", f"policy:{HERE}:DiesOnce", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "uniform,kuhn/aggressive"]
EVAL += ["--rows", "4", "--out"]
"""16 meta-episodes."""


def results(executor, jobs, **conditions):
    """Return the results by the index of their job. Raise AssertionError if a result comes twice."""
    outcomes = {}
    for index, outcome in executor.run(Work, jobs, Conditions(**conditions)):
        assert index not in outcomes
        outcomes[index] = outcome
    return [outcomes[index] for index in range(len(jobs))]


def test_each_result_comes_once_in_this_process_and_in_others(tmp_path, monkeypatch):
    fuse = tmp_path / "fuse"
    monkeypatch.setenv(FUSE, str(fuse))
    local_outcomes = results(Local(), [1, "raise", 2, "die once"])
    assert local_outcomes[0::2] == [(1, 0), (2, 0)]
    assert isinstance(local_outcomes[1], CallError)
    assert results(Local(), ["go on"]) == [("go on", 3)]
    fuse.touch()
    slow_jobs = []
    jobs = [1, "raise", "die", "die once", "sleep", *range(6)]
    spread = results(Processes(2), jobs, deadline=1.0, slow_after=0.2, tell=lambda *slow: slow_jobs.append(slow))
    assert isinstance(spread[1], CallError)
    assert (spread[1].error.args, spread[1].traceback.count("raise ArithmeticError")) == (("out of numbers",), 1)
    assert (spread[2].kind, spread[4].kind) == (CRASH, HANG)
    assert spread[3] == ("die once", 0)
    assert not fuse.exists()
    assert [spread[0], *spread[5:]] == [(1, 0), *((number, 0) for number in range(6))]
    assert 4 in {index for index, seconds in slow_jobs}  # a process that starts late is reported, too
    with pytest.raises(ArithmeticError, match="out of numbers"):
        unwrap(spread[1], "job 1")
    with pytest.raises(WorkerFailure, match=r"job 2: its process died: exit code -9 .SIGKILL."):
        unwrap(spread[2], "job 2")


def test_nothing_to_do_starts_nothing():
    assert results(Processes(2), []) == []


@pytest.fixture(scope="module")
def local_run(tmp_path_factory):
    """The run that others are compared with."""
    return play_alone(EVAL, tmp_path_factory.mktemp("alone") / "run")


def test_a_killed_worker_changes_nothing_and_a_run_resumes_under_any_executor(local_run, tmp_path, monkeypatch, capsys):
    fuse, folder = tmp_path / "fuse", tmp_path / "run"
    monkeypatch.setenv(FUSE, str(fuse))
    fuse.touch()
    writer = Writer(folder, local_run.about, resume=False)
    for index, trajectory in enumerate(local_run.trajectories()[:5]):
        writer.add(index, trajectory)
    writer.close()
    assert main([*EVAL, str(folder), "--resume", "--executor", "processes:2"]) == 0
    assert not fuse.exists()
    records = Records(folder)
    assert records.root() == local_run.root()
    assert records.root()["count"] == 16
    assert records.lines[3] == local_run.lines[3]
    assert (folder / "scores.csv").read_bytes() == (local_run.folder / "scores.csv").read_bytes()
    assert "16 of 16 meta-episodes, 5 of them from before" in capsys.readouterr().err


class LosesTheSecond:
    """Does the work here, but for the second job."""

    pieces = 4

    def run(self, make, jobs, conditions):
        work = make()
        for index, job in enumerate(jobs):
            yield index, (WorkerLost(CRASH, "its process died: exit code 3") if index == 1 else work(job))


def test_the_jobs_of_a_lost_worker_are_reported_and_played_by_resume(local_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(FUSE, str(tmp_path / "no fuse"))
    monkeypatch.setattr(measuring, "make_executor", lambda spec: Local() if spec == "local" else LosesTheSecond())
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as exit_info:
        main([*EVAL, str(folder), "--executor", "processes:4"])
    assert exit_info.value.code == 3
    stderr = capsys.readouterr().err
    assert "mage: meta-episodes 4 to 7: its process died: exit code 3\n" in stderr
    assert "4 meta-episodes were not played" in stderr
    assert Records(folder).missing == [4, 5, 6, 7]
    assert main([*EVAL, str(folder), "--resume"]) == 0
    assert Records(folder).root() == local_run.root()


def test_results_come_in_the_order_of_the_jobs():
    assert list(run_in_order(Backwards(), divmod, (7,), [1, 2, 3])) == [(7, 0), (3, 1), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        list(run_in_order(Local(), divmod, (7,), [1, 0]))


def test_ceilings_are_the_same(monkeypatch, capsys):
    eval_command = [
        *("headroom", "KuhnPoker", "--ceilings", "--opponents", "pool:kuhn/paper", "--episodes", "1"),
        *("--game-option", "reveal=always"),
    ]
    assert main(eval_command) == 0
    local_output = capsys.readouterr().out
    monkeypatch.setattr("mage_envs.benchmarks.commands.headroom.make_executor", lambda spec: Backwards())
    assert main([*eval_command, "--executor", "processes:2"]) == 0
    assert [line.split(" (")[0] for line in capsys.readouterr().out.splitlines()] == [
        line.split(" (")[0] for line in local_output.splitlines()
    ]


def test_checks_of_chaos_are_done_one_by_one(monkeypatch, capsys):
    monkeypatch.setattr("mage_envs.benchmarks.commands.check.make_executor", lambda spec: Backwards())
    monkeypatch.setattr("mage_envs.benchmarks.commands.check.run_checks", checks_in_words)
    eval_command = ["check", "mage/KuhnPoker-v0", "--check", "order", "--check", "fuzz", "--executor", "processes:2"]
    with pytest.raises(SystemExit) as exit_info:
        main(eval_command)
    assert exit_info.value.code == 1
    assert re.findall(r"^(\w+) +1 +0.0  (.*)$", capsys.readouterr().out, re.MULTILINE) == [
        ("order", "ok"),
        ("fuzz", "FAILED"),
    ]


def checks_in_words(request):
    """A row for each check that is asked for; `fuzz` finds something."""
    for name in request.checks:
        yield CheckRow(name, 1, 0.0, Found(name, 0, "something") if name == "fuzz" else None)


def test_the_rows_of_headroom_are_the_same():
    rows = [Setup(game="KuhnPoker", pool="kuhn/paper"), Setup(game="Sokoban", pool="")]
    local_rows, spread_rows = (list(solve_rows(lambda *_: None, rows, executor)) for executor in (None, Backwards()))
    assert [replace(row.values, seconds=0.0) for row in local_rows if row.values] == [
        replace(row.values, seconds=0.0) for row in spread_rows if row.values
    ]
    assert [row.reason for row in spread_rows] == ["", "not enumerable"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--executor", "proceses:2"], "Unknown executor 'proceses:2'. Did you mean processes:N?"),
        (["--executor", "processes:none"], "Executor 'processes:none': count must be a whole number, got 'none'."),
        (["--executor", "kubernetes"], "Unknown executor 'kubernetes'. The forms are local, processes:N, ray"),
        (["--executor", "processes:2", "--budget", "calls=9"], "--budget requires a single process, but --executor"),
        (["--executor", "processes:2", "--budget", "tokens=9"], "--budget requires a single process"),
        (["--executor", "processes:2", "--env-workers", "2"], "--env-workers requires a single process"),
    ],
)
def test_impossible_settings_are_reported_in_one_line(tmp_path, capsys, arguments, says):
    assert main([*EVAL, str(tmp_path / "run"), *arguments]) == 2
    stderr = capsys.readouterr().err
    assert says in stderr
    assert stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_executors_that_are_not_installed_name_their_extra(monkeypatch):
    monkeypatch.setattr("mage_envs.benchmarks.executors.naming.find_spec", lambda package: None)
    for spec, extra in [("ray", "ray"), ("ray:auto", "ray"), ("slurm:cpu,gpu", "slurm")]:
        with pytest.raises(ImportError, match=rf'Executor {extra!r} requires .* pip install "mage-envs\[{extra}\]"'):
            make_executor(spec)


def test_a_worker_refuses_other_versions_and_other_data():
    work = pack_work(Work)
    assert work(7) == (7, 0)
    old = replace(work, versions={**work.versions, "mage-envs": "0.0.1"}, make=work.make + b"\0")
    refused = old(7)
    assert isinstance(refused, CallError)
    assert "other package versions than the command that sent it work (mage-envs 0.0.1 there, " in str(refused.error)
    setting = setting_for("kuhn-paper-128")
    about = json.loads(json.dumps(about_run(make_agent("scripted:first"), setting)))
    playing = Playing(agent="scripted:first", about=about, batch=4, env_timeout=60.0)
    assert [trajectory.task for trajectory in playing()([3, 1])] == [setting.tasks[3], setting.tasks[1]]
    with pytest.raises(RuntimeError, match="kuhn-paper-128 is another setting on a worker .fingerprint"):
        replace(playing, about={**about, "fingerprint": "0" * 64})()
    with pytest.raises(RuntimeError, match="On the worker, scripted:first is another model"):
        replace(playing, about={**about, "agent": {**about["agent"], "content": "0" * 16}})()


def test_a_worker_makes_its_environments_once_and_again_after_a_failure(monkeypatch):
    """They and their opponents take a fifth of the time of a small piece."""
    about = about_run(make_agent("scripted:first"), setting_for("kuhn-paper-128"))
    make_one, envs = evaluate.env_maker(about["setting"]["options"]["env_id"]), []

    def make_env():
        envs.append(make_one())
        return envs[-1]

    def breaks(action):
        raise ArithmeticError("out of numbers")

    monkeypatch.setattr(evaluate, "env_maker", lambda env_id, options: make_env)
    player = Playing(agent="scripted:first", about=about, batch=4, env_timeout=60.0)()

    def digests(places):
        return [encode_line(index, trajectory).digest for index, trajectory in zip(places, player(places), strict=True)]

    all_digests = digests([0, 1, 2])
    assert digests([0]) + digests([1, 2]) == all_digests
    assert len(envs) == 3
    envs[0].step = breaks
    assert [len(trajectory.failures) for trajectory in player([3, 4])] == [1, 0]  # played again, in a new environment
    assert len(envs) == 5  # the next piece begins with others
    assert digests([0, 1, 2]) == all_digests
    assert len(envs) == 7
