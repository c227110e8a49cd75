"""The pool of worker processes: what hangs, dies or fills the memory costs one call, and nothing is left behind."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from mage_envs.processes.call_outcomes import CallError, WorkerLost, attempt
from mage_envs.processes.pool import Pool
from mage_envs.processes.watchdog import CallTimeout, Watchdog
from tests.mage_envs import deadly_calls


@pytest.fixture(scope="module")
def pool():
    new_pool = Pool(deadly_calls.make, 2, memory_gb=4.0)
    yield new_pool
    new_pool.close()


def outcome(pool, *arguments, deadline=60.0, worker=0):
    pool.revive(worker)
    pool.call(worker, *arguments, deadline=deadline)
    return pool.next_outcome()[1]


def is_gone(pid):
    """Return True if a process ends within 5 seconds. Its new parent may leave it a zombie, which counts as ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_calls_and_exceptions_leave_the_worker_alive(pool):
    pid = outcome(pool, "pid")
    assert outcome(pool, "add", 2, 3) == 5
    raised = outcome(pool, "nothing")
    assert isinstance(raised, CallError)
    assert (type(raised.error), str(raised.error)) == (ArithmeticError, "out of numbers")
    assert raised.traceback == attempt(deadly_calls.call, "nothing").traceback
    outcome_of_leave = outcome(pool, "leave")
    assert (type(outcome_of_leave.error), outcome_of_leave.error.code) == (SystemExit, 3)
    assert "cannot be sent between processes" in str(outcome(pool, "function").error)
    assert outcome(pool, "length", "x" * 5_000_000) == 5_000_000
    assert outcome(pool, "pid") == pid


@pytest.mark.parametrize("call_name", ["sleep", "loop"])
def test_a_hang_reports_its_stack(pool, call_name):
    pid = outcome(pool, "pid")
    lost = outcome(pool, call_name, deadline=0.5)
    assert isinstance(lost, WorkerLost)
    assert lost[:2] == ("hang", "no answer within 0.5 s")
    assert "deadly_calls.py" in lost.traceback
    assert pool.processes[0] is None
    assert is_gone(pid)
    assert outcome(pool, "pid") != pid


def test_a_stopped_process_is_killed_too(pool):
    os.kill(outcome(pool, "pid"), signal.SIGSTOP)
    pool.call(0, "length", "x" * 1_000_000, deadline=0.5)  # more than the pipe holds
    assert pool.next_outcome()[1] == WorkerLost("hang", "no answer within 0.5 s", "")


def test_causes_of_death_are_distinguished(pool):
    lost = outcome(pool, "segfault")
    assert lost[:2] == ("crash", "its process died: exit code -11 (SIGSEGV)")
    assert "Segmentation fault" in lost.traceback
    assert "deadly_calls.py" in lost.traceback
    assert outcome(pool, "exit")[:2] == ("crash", "its process died: exit code 7")
    lost = outcome(pool, "fill")
    assert lost[:2] == ("memory", "the limit of 4 GB of memory is reached")
    assert "bytearray" in lost.traceback
    assert not pool.alive(0)


def test_calls_run_side_by_side_and_one_death_costs_one_call(pool):
    for worker in (0, 1):
        pool.revive(worker)
    pool.call(0, "sleep", deadline=1.0)
    pool.call(1, "add", 1, 1, deadline=60.0)
    assert pool.next_outcome() == (1, 2)
    assert pool.next_outcome()[1].kind == "hang"
    with pytest.raises(RuntimeError, match="No call is running"):
        pool.next_outcome()


def test_a_worker_killed_between_calls_is_started_again(pool):
    pid, lives = outcome(pool, "pid", worker=1), pool.revive(1)
    [killed] = [child for child in multiprocessing.active_children() if child.pid == pid]
    os.kill(pid, signal.SIGKILL)
    killed.join()
    assert pool.revive(1) == lives + 1
    assert outcome(pool, "add", 1, 2, worker=1) == 3


def test_one_word_about_a_slow_call():
    slow_calls = []
    pool = Pool(deadly_calls.make, 1, slow_after=0.2, on_slow=lambda *slow_call: slow_calls.append(slow_call))
    assert outcome(pool, "sleep", deadline=1.0).kind == "hang"
    pool.close()
    assert [worker for worker, _ in slow_calls] in ([0], [0, 0])  # once more where the process was slow to start
    assert all(seconds >= 0.2 for _, seconds in slow_calls)


def test_what_cannot_be_made_or_sent():
    pool = Pool(deadly_calls.broken, 1)
    raised = outcome(pool, "add")
    assert (type(raised.error), raised.error.args) == (LookupError, ("nothing to make",))
    assert outcome(pool, "add").error.args == ("nothing to make",)  # and at each try
    pool.close()
    with pytest.raises(TypeError, match="The workers' function cannot be pickled: "):
        Pool(partial(print, threading.Lock()), 1)
    for wrong in (0, -1, True):
        with pytest.raises(ValueError, match="workers="):
            Pool(deadly_calls.make, wrong)
    with pytest.raises(ValueError, match="memory_gb=-1"):
        Pool(deadly_calls.make, 1, memory_gb=-1)


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_behind(tmp_path):
    outcome(Pool(deadly_calls.make, 1), "add")  # multiprocessing's own tracker stays from now on
    descriptors_before, others, processes = descriptors(), set(multiprocessing.active_children()), []
    for _ in range(3):
        pool = Pool(deadly_calls.make, 2)
        processes += [outcome(pool, "pid"), outcome(pool, "child"), outcome(pool, "pid", worker=1)]
        outcome(pool, "segfault", worker=1)
        processes += [outcome(pool, "pid", worker=1)]
        outcome(pool, "sleep", deadline=0.2, worker=1)
        pool.call(0, "sleep")
        pool.close()
        pool.close()
    assert set(multiprocessing.active_children()) == others
    assert descriptors() == descriptors_before
    assert all(is_gone(pid) for pid in processes)
    pool = Pool(partial(deadly_calls.Keeping, tmp_path / "note"), 1)
    assert outcome(pool, 1) == 2
    pool.close()
    assert (tmp_path / "note").read_text() == "closed"


# -- in this process --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_name", ["sleep", "loop"])
def test_a_watch_interrupts_a_late_call(call_name):
    handler_before = signal.getsignal(signal.SIGALRM)
    with Watchdog(lambda *_: None) as watch:
        with pytest.raises(CallTimeout, match=r"no answer within 0\.3 s"):
            watch.call(deadly_calls.call, call_name, deadline=0.3, describe=str)
        assert watch.call(deadly_calls.call, "add", 1, 2, deadline=60.0, describe=str) == 3
        assert isinstance(watch.call(attempt, deadly_calls.call, "no", deadline=60.0, describe=str), CallError)
    assert signal.getsignal(signal.SIGALRM) is handler_before
    assert "mage-watch" not in [thread.name for thread in threading.enumerate()]


def test_a_watch_names_a_slow_call_once():
    names = []
    with Watchdog(lambda name, seconds: names.append(name), slow_after=0.1) as watch, pytest.raises(CallTimeout):
        watch.call(deadly_calls.call, "sleep", deadline=0.6, describe=lambda: "the sleeper")
    assert names == ["the sleeper"]


def test_a_watch_outside_the_main_thread_interrupts_nothing():
    results = []

    def play():
        with Watchdog(lambda *_: None) as watch:
            results.append(watch.call(time.sleep, 0.5, deadline=0.1, describe=str))

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert results == [None]


def test_an_alarm_of_other_code_is_passed_on():
    heard = []
    handler_before = signal.signal(signal.SIGALRM, lambda *_: heard.append("theirs"))
    try:
        with Watchdog(lambda *_: None) as watch:
            watch.call(signal.raise_signal, signal.SIGALRM, deadline=60.0, describe=str)
    finally:
        signal.signal(signal.SIGALRM, handler_before)
    assert heard == ["theirs"]
