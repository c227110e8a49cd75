"""Opponents that raise, hang, die or fill the memory: typed failures, counted and played again.

They behave the same with and without worker processes, and no other meta-episode changes by a byte.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mage_envs.core import Task
from mage_envs.text.generation import Prompt
from mage_envs.wrappers.make import make_meta_env
from mage_envs.wrappers.rollout.env_pool import WorkerProcessEnvs
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.trajectory import Trajectory
from tests.mage_envs.test_processes import is_gone
from tests.trainer.faulty import DEADLY, Faulty, count_faults, lines
from tests.trainer.foreign import Guess
from tests.trainer.rollout.test_rollout import answer, frozen

COUNT = 60


def specs(count: int = COUNT) -> list[RolloutSpec]:
    return [RolloutSpec(Task("mage/KuhnPoker-Meta-v0", seed=100 + i), group=i) for i in range(count)]


def play(
    make_env: Any, workers: int, *, count: int = COUNT, memory_gb: float = 0.0, **options: Any
) -> list[Trajectory]:
    """All specs, in 6 environments."""
    if not workers:
        envs = [make_env() for _ in range(6)]
        return collect(envs, ScriptedGenerator(answer), specs(count), make_env=make_env, **options)
    worker_envs = WorkerProcessEnvs(make_env, 6, workers, memory_gb=memory_gb)
    try:
        return collect(worker_envs, ScriptedGenerator(answer), specs(count), **options)
    finally:
        worker_envs.close()
        assert not multiprocessing.active_children()


def faulty(log: Path, *faults: str, rarity: int = 25) -> Any:
    return partial(make_meta_env, "KuhnPoker", opponent=Faulty(str(log), faults, rarity), num_episodes=2)


def failures(trajectories: list[Trajectory]) -> Counter[str]:
    return Counter(failure.kind for trajectory in trajectories for failure in trajectory.failures)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The trajectories of an opponent that never fails."""
    return frozen(play(faulty(tmp_path_factory.mktemp("sound") / "log"), 0))


def check_others(trajectories: list[Trajectory], sound: list[bytes]) -> None:
    """Check that a meta-episode changes only if it failed, and that the retry of a failed one succeeded."""
    for trajectory, expected in zip(trajectories, sound, strict=True):
        assert trajectory.failure is None
        assert (frozen([trajectory])[0] == expected) is not bool(trajectory.failures)


@pytest.mark.parametrize("workers", [0, 2])
def test_exceptions_are_counted_and_played_again(workers: int, tmp_path: Path, sound: list[bytes]) -> None:
    log = tmp_path / "log"
    trajectories = play(faulty(log, "reset", "act", "result", "leave"), workers)
    assert {line.split()[0] for line in lines(log)} == {"reset", "act", "result", "leave"}
    assert failures(trajectories) == count_faults(log)
    check_others(trajectories, sound)
    reasons = {failure.reason.partition(": ")[2] for t in trajectories for failure in t.failures}
    assert reasons == {"reset", "act: line 1 column 2 (char 1)", "'result'", "it ended its program: SystemExit(1)"}
    for failure in (failure for t in trajectories for failure in t.failures):
        assert "faulty.py" in failure.traceback
        assert "raise RAISING[fault]()" in failure.traceback


def test_an_error_in_begin_meta_episode_is_the_opponents(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trajectories = play(faulty(log, "begin", rarity=4), 0)
    assert failures(trajectories) == count_faults(log)
    assert failures(trajectories)["opponent"] > 5
    assert all(
        failure.reason == "Opponent 'Faulty' failed in KuhnPoker: begin" for t in trajectories for failure in t.failures
    )


def test_workers_change_no_byte(tmp_path: Path) -> None:
    """Tracebacks included; the log is one for both, emptied in between."""
    log = tmp_path / "log"
    runs = []
    for workers in (0, 1, 3):
        runs.append(frozen(play(faulty(log, "reset", "act", "result"), workers)))
        log.unlink()
    assert runs[0] == runs[1] == runs[2]


def test_hangs_of_python_are_interrupted_in_this_process(tmp_path: Path, sound: list[bytes]) -> None:
    log = tmp_path / "log"
    trajectories = play(faulty(log, "sleep", "loop"), 0, env_timeout=0.5)
    assert {line.split()[0] for line in lines(log)} == {"sleep", "loop"}
    assert failures(trajectories) == count_faults(log)
    check_others(trajectories, sound)


def test_a_worker_that_hangs_or_dies_costs_one_meta_episode(tmp_path: Path, sound: list[bytes]) -> None:
    log = tmp_path / "log"
    trajectories = play(faulty(log, *DEADLY, rarity=67), 2, env_timeout=2.0, memory_gb=8.0)
    assert {line.split()[0] for line in lines(log)} == set(DEADLY)
    assert failures(trajectories) == count_faults(log)
    check_others(trajectories, sound)
    for failure in (failure for t in trajectories for failure in t.failures):
        assert failure.reason in (
            "no answer within 2 s",
            "its process died: exit code -11 (SIGSEGV)",
            "its process died: exit code -9 (SIGKILL)",
            "the limit of 8 GB of memory is reached",
        )
        assert "faulty.py" in failure.traceback or "SIGKILL" in failure.reason


class Fleeting(Guess):
    """Shows what does not follow from its seed; kills its process after some guesses."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        super().reset(**options)
        self.tries = 2
        return f"Guess a number from 0 to 4. I am {os.getpid()}.", {}

    def step(self, action: str) -> Any:
        self.tries -= 1
        if not self.tries:
            os._exit(4)
        return f"I am {os.getpid()}.", *super().step("9")[1:]


def test_what_cannot_be_led_back_is_a_failure_of_its_own() -> None:
    worker_envs = WorkerProcessEnvs(Fleeting, 2, 1)
    planned_specs = [RolloutSpec(Task("", seed=seed)) for seed in range(2)]
    trajectories = collect(worker_envs, ScriptedGenerator(lambda prompt: "2"), planned_specs, retries=0)
    worker_envs.close()
    assert trajectories[0].failure == "crash: its process died: exit code 4"
    assert trajectories[1].failure is not None
    assert trajectories[1].failure.startswith("environment: RuntimeError: its worker was lost in another meta-episode")


class Broken(Guess):
    """A bug of its author's that shows in the middle of a run."""

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        if seed > 103:
            raise ValueError("a bug")
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Any:
        result = super().step(action)
        return result[:3] if self.number < 3 else result


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bug_in_a_users_environment_keeps_its_traceback(workers: int, tmp_path: Path) -> None:
    def guess(prompt: Prompt) -> str:
        return "4"

    broken_envs: Any = WorkerProcessEnvs(Broken, 2, 2) if workers else [Broken(), Broken()]
    trajectories = collect(broken_envs, ScriptedGenerator(guess), specs(12), make_env=Broken)
    if workers:
        broken_envs.close()
    reasons = [t.failure for t in trajectories]
    assert "environment: ValueError: a bug" in reasons
    assert any(text is not None and "BadResult: step() must return (observation, reward" in text for text in reasons)
    assert None in reasons
    failure_log = FailureLog(tmp_path)
    failure_log.record(trajectories, "train", 3)
    rows = failure_log.rows()
    assert (
        len(rows) == sum(len(t.failures) for t in trajectories) == 2 * sum(t.failure is not None for t in trajectories)
    )
    bugs = [row for row in rows if row["reason"] == "ValueError: a bug"]
    assert all('raise ValueError("a bug")' in row["traceback"] for row in bugs)
    assert [row["attempt"] for row in bugs[:2]] == [0, 1]
    assert [row["given_up"] for row in bugs[:2]] == [False, True]
    with pytest.raises(ValueError, match="a bug"):
        collect([Broken()], ScriptedGenerator(guess), [RolloutSpec(Task("", seed=104))])


class Asks:
    """A policy that queries a fake model: it records the answers, and fails or dies at its third turn."""

    def __init__(self, ends: str) -> None:
        self.ends, self.calls = ends, 0

    def on_meta_episode_start(self) -> None:
        self.calls = 0

    def reset(self, rng: Any) -> None:
        pass

    def act(self, turn: Any) -> str:
        self.calls += 1
        if self.calls == 3 and self.ends == "death":
            os._exit(4)
        if self.calls == 3:
            raise ConnectionError("nobody answers")
        return str(turn.legal_actions[0])

    def model_calls(self) -> list[dict[str, int]]:
        return [{"call": number} for number in range(self.calls)]


@pytest.mark.parametrize(("workers", "ends"), [(0, "error"), (1, "error"), (1, "death")])
def test_a_failed_meta_episode_records_the_answers_of_its_opponents_models(workers: int, ends: str) -> None:
    """As far as its process lives; and the reply that it failed at."""
    trajectories = play(
        partial(make_meta_env, "KuhnPoker", opponent=Asks(ends), num_episodes=4), workers, count=3, retries=0
    )
    assert {t.failure for t in trajectories} == {
        "crash: its process died: exit code 4"
        if ends == "death"
        else "opponent: Opponent 'Asks' failed in KuhnPoker: nobody answers"
    }
    assert [len(t.opponent_calls) for t in trajectories] == [0 if ends == "death" else 3] * 3
    for trajectory in trajectories:
        assert (trajectory.failed_reply is None) == (ends == "death")
        assert trajectory.failed_reply is None or trajectory.failed_reply.text.startswith("<action>")


def test_ctrl_c_ends_hung_workers_and_is_reported_in_one_line(tmp_path: Path) -> None:
    """The signal goes to the whole group, as a terminal sends it."""
    arguments = ["scripted:first", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "tests.trainer.faulty:Asleep"]
    command = [sys.executable, "-m", "mage_envs", "eval", *arguments, "--rows", "1", "--env-workers", "2"]
    note = tmp_path / "asleep"
    run = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"ASLEEP": str(note)}, start_new_session=True
    )
    try:
        for _ in range(1200):
            if note.exists() and note.read_text():
                break
            assert run.poll() is None
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT)
        _, error = run.communicate(timeout=60)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 130
    assert error.splitlines()[-1] == "Interrupted."
    assert "Traceback" not in error
    assert is_gone(int(note.read_text()))


# -- the failure log --------------------------------------------------------------------------------------------------


def test_a_ledger_resumes_with_its_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trajectories = play(faulty(log, "reset"), 0)
    count = sum(count_faults(log).values())
    failure_log = FailureLog(tmp_path / "run")
    assert failure_log.summary() == ""
    for step in (0, 2, 4):
        failure_log.record(trajectories, "train", step)
    failure_log.record(trajectories, "eval", 4)
    assert failure_log.count == len(failure_log.rows()) == 4 * count
    with failure_log.path.open("a") as file:
        file.write('{"kind": "hang", "ste')  # as a full disk leaves it
    ledger = FailureLog(tmp_path / "run")
    ledger.resume(4)
    assert ledger.count == 3 * count
    assert Counter((row["phase"], row["step"]) for row in ledger.rows()) == {
        ("train", 0): count,
        ("train", 2): count,
        ("eval", 4): count,
    }
    assert ledger.path.read_text().endswith("\n")
    assert ledger.summary() == (
        f"Failures: {3 * count} ({3 * count} opponent), 0 of them for good, the others played again; see {ledger.path}"
    )
    ledger.resume(0)
    assert not ledger.path.exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_ends_a_run_leaves_its_traceback_too(workers: int, tmp_path: Path) -> None:
    failure_log = FailureLog(tmp_path)
    planned_specs = [RolloutSpec(Task("", seed=104))]
    envs: Any = WorkerProcessEnvs(Broken, 1, 1) if workers else [Broken()]
    with pytest.raises(ValueError, match="a bug") as raised, failure_log.record_crash("train", 0):
        collect(envs, ScriptedGenerator(answer), planned_specs)
    if workers:
        envs.close()
    assert raised.value.__notes__[-1] == f"Its traceback is in {tmp_path / 'failures.jsonl'}"
    [row] = failure_log.rows()
    assert (row["kind"], row["reason"], row["step"]) == ("run", "ValueError: a bug", 0)
    assert 'raise ValueError("a bug")' in row["traceback"]
    assert failure_log.summary().startswith("Failures: 1 (1 run), 1 of them for good")
