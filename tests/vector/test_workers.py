"""Worker processes: the same bytes as without them, and no worker's death takes more than its own episodes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import OpponentFailure
from mage_envs.text.parser import Reply
from mage_envs.vector import WorkerFailure, WorkerVectorEnv
from tests.vector.compare import MODES, assert_same, gymnasiums, ours, play
from tests.vector.deadly_opponents import Deadly, Hanging, Raising

ROOT = Path(__file__).parent.parent.parent


def is_gone(pid):
    """Return True if the process does not exist, not even as a zombie."""
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("env_id", "options", "mode"),
    [
        ("mage/KuhnPoker-v0", {}, "SameStep"),
        ("mage/TicTacToe-v0", {"opponent": "mcts:20"}, "NextStep"),
        ("mage/KuhnPoker-Meta-v0", {"hands_per_episode": 2}, "Disabled"),
    ],
)
def test_equal_to_gymnasiums_in_one_process(env_id, options, mode):
    mine = ours(env_id, 5, mode, workers=2, **options)
    pids = mine.processes
    assert [len(rows) for rows in mine._rows] == [2, 3]
    theirs = gymnasiums(env_id, 5, mode, **options)
    assert mine.metadata == theirs.metadata
    assert_same(play(mine, 25, 1, 0.2, 3), play(theirs, 25, 1, 0.2, 3))
    assert all(is_gone(pid) for pid in pids)
    assert not multiprocessing.active_children()
    mine.close()
    with pytest.raises(gym.error.ClosedEnvironmentError):
        mine.reset()


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_worker_costs_its_own_episodes(mode, tmp_path):
    """The first worker dies in the middle of a step; the second one's rows are as if nothing had happened."""
    flag = tmp_path / "armed"
    envs = ours("mage/KuhnPoker-v0", 4, mode, workers=2, opponent=Deadly("Qp", str(flag)), seat="first")
    calm = ours("mage/KuhnPoker-v0", 4, mode, workers=2, opponent=Deadly("Qp", ""), seat="first")
    for each_envs in (envs, calm):
        each_envs.reset(seed=[0, 1, 2, 3])
    # The opponent's queen: as the seeds deal it to rows 0 and 1 of these.
    texts = envs.reset(seed=[5, 5, 2, 3])[0]
    calm.reset(seed=[5, 5, 2, 3])
    flag.touch()
    step = 0
    while flag.exists():
        processes_before = envs.processes
        batch = envs.step(["check"] * 4)
        expected = calm.step(["check"] * 4)
        step += 1
        if flag.exists():
            assert_same(batch[0], expected[0])
            texts = batch[0]
            if mode == "Disabled" and (over := batch[2] | batch[3]).any():
                texts = envs.reset(options={"reset_mask": over})[0]
                calm.reset(options={"reset_mask": over})
        assert step < 60
    new_texts, rewards, terminated, truncated, infos = batch
    dead = [row for row in range(4) if truncated[row]]
    assert dead in ([0, 1], [2, 3])
    living = [row for row in range(4) if row not in dead]
    final = infos["final_info"] if mode == "SameStep" else infos
    assert [final["failure"][row] for row in dead] == ["crash: its process died: exit code -9 (SIGKILL)"] * 2
    assert final["_failure"].tolist() == [row in dead for row in range(4)]
    assert not terminated[dead].any()
    assert not rewards[dead].any()
    final_texts = infos["final_obs"] if mode == "SameStep" else new_texts
    assert [final_texts[row] for row in dead] == [texts[row] for row in dead]
    assert [new_texts[row] for row in living] == [expected[0][row] for row in living]
    assert rewards[living].tolist() == expected[1][living].tolist()
    check_going_on(envs, mode, dead, processes_before, truncated | terminated)
    pids = envs.processes
    envs.close()
    calm.close()
    assert all(is_gone(pid) for pid in pids)
    assert not multiprocessing.active_children()


def check_going_on(envs, mode, dead, processes_before, over):
    """The dead worker is replaced at its rows' next reset, and the rows play on."""
    if mode == "NextStep":
        assert envs.processes.count(None) == 1
        _, _, terminated, truncated, infos = envs.step(["check"] * 4)
        assert not (terminated | truncated)[dead].any()
        assert "failure" not in infos
    elif mode == "Disabled":
        with pytest.raises(gym.error.ResetNeeded):
            envs.step(["check"] * 4)
        first_rows = over.copy()
        first_rows[dead[1]] = False
        envs.reset(options={"reset_mask": first_rows})  # not all rows of the new worker at once
        envs.reset(options={"reset_mask": over & ~first_rows})
    assert None not in envs.processes
    assert sum(pid in processes_before for pid in envs.processes) == 1
    _, _, _, truncated, infos = envs.step(["check"] * 4)
    assert not truncated.any()
    assert "failure" not in infos


def test_what_follows_a_death_follows_from_the_seed():
    """Killed between steps, from outside; the new environments' deals are a function of seed and number of deaths."""
    batches = []
    for _ in range(2):
        envs = ours("mage/KuhnPoker-v0", 2, "NextStep", workers=2, opponent="kuhn/soft-station")
        envs.reset(seed=8)
        os.kill(envs.processes[0], signal.SIGKILL)
        next_batches = [envs.step(["check"] * 2) for _ in range(6)]
        assert next_batches[0][3].tolist() == [True, False]
        batches.append(next_batches)
        envs.close()
    assert_same(*batches)


def test_a_hung_worker_is_killed_at_the_deadline(tmp_path):
    flag = tmp_path / "armed"
    flag.touch()
    envs = ours(
        "mage/KuhnPoker-v0", 2, "NextStep", workers=2, deadline=3.0, opponent=Hanging("Jp", str(flag)), seat="first"
    )
    envs.reset(seed=0)
    failed = []
    for _ in range(40):
        _, _, _, truncated, infos = envs.step(["check"] * 2)
        failed += [infos["failure"][row] for row in np.flatnonzero(truncated)]
    assert failed == ["hang: no answer within 3 s"]
    envs.close()


def test_a_stopped_worker_and_long_actions():
    """More text than the pipe holds, to a process that reads nothing."""
    envs = ours("mage/KuhnPoker-v0", 4, "NextStep", workers=2, deadline=3.0, opponent="kuhn/nash")
    envs.reset(seed=0)
    os.kill(envs.processes[1], signal.SIGSTOP)
    _, _, _, truncated, infos = envs.step(["x" * 1_000_000] * 4)
    assert truncated.tolist() == [False, False, True, True]
    assert infos["invalid_reason"][:2].tolist() == ["invalid", "invalid"]
    envs.close()


def test_a_death_in_reset_is_an_exception():
    envs = ours("mage/KuhnPoker-v0", 4, "NextStep", workers=2, opponent="kuhn/nash")
    os.kill(envs.processes[1], signal.SIGKILL)
    with pytest.raises(
        WorkerFailure, match=r"environments 2 to 3: its process died: exit code -9 \(SIGKILL\) in reset. Call reset\(\)"
    ):
        envs.reset(seed=0)
    calm = ours("mage/KuhnPoker-v0", 4, "NextStep", opponent="kuhn/nash")
    assert_same(envs.reset(seed=0), calm.reset(seed=0))
    envs.close()


def test_an_exception_is_raised_as_without_workers():
    messages = []
    for workers in (0, 2):
        envs = ours("mage/KuhnPoker-v0", 2, "NextStep", workers=workers, opponent=Raising("Jp"), seat="first")
        envs.reset(seed=0)
        messages.append(until_it_raises(envs))
        envs.reset(seed=1)
        envs.close()
    assert messages == ["Opponent 'Raising' failed in KuhnPoker: no idea"] * 2


def until_it_raises(envs):
    """Step until the opponent fails, and return the message."""
    for _ in range(40):
        try:
            envs.step(["check"] * envs.num_envs)
        except OpponentFailure as failure:
            return str(failure)
    return pytest.fail("nothing was raised")


def test_replies_keep_what_their_generator_knows():
    """A reply's length counts in a worker, too."""
    envs = ours("mage/KuhnPoker-Meta-v0", 2, "NextStep", workers=2)
    envs.reset(seed=0)
    infos = envs.step([Reply("<action>x", tokens=10, limit=10, truncated=True), "<action>x</action>"])[4]
    assert infos["invalid_reason"].tolist() == ["length", "invalid"]
    assert infos["penalty"][0] > infos["penalty"][1] > 0
    envs.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 3}, "workers=3 must be at most num_envs=2"),
        ({"workers": -1}, "workers=-1 must be a whole number"),
        ({"workers": 1, "deadline": -1.0}, "deadline=-1.0 must be a number of seconds, or 0"),
        ({"deadline": 1.0}, "deadline=1.0 needs workers"),
        ({"workers": 1, "render_mode": "ansi"}, "environments in workers do not render"),
        ({"workers": 1, "seat": "third"}, "seat='third' is unknown"),
        ({"num_envs": 0}, "num_envs=0 must be a whole number"),
        ({"autoreset_mode": "never"}, "'never' is not a valid AutoresetMode"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        gym.make_vec("mage/KuhnPoker-v0", **{"num_envs": 2, **options})
    assert not multiprocessing.active_children()


def test_types_are_exported():
    assert isinstance(ours("mage/KuhnPoker-v0", 1, "NextStep", workers=1), WorkerVectorEnv)  # never closed


SCRIPT = """
import os, signal
from dataclasses import replace
import gymnasium as gym
import mage_envs
from mage_envs import register_game
from mage_envs.games.kuhn_poker import KuhnPoker

class Twice(KuhnPoker):
    spec = replace(KuhnPoker.spec, name="Twice")

{guard}
    register_game("Twice", Twice)
    envs = gym.make_vec("mage/Twice-v0", num_envs=2, workers=2, opponent="uniform")
    envs.reset(seed=0)
    envs.step(["check", "bet"])
    print(*envs.processes, flush=True)
    {end}
"""


def run(tmp_path, guard, end=""):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(guard=guard, end=end))
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_script_that_never_closes_ends_cleanly(tmp_path):
    """And a game that only the script registers, below its guard, is known in the workers."""
    process = run(tmp_path, "if __name__ == '__main__':")
    assert (process.returncode, process.stderr) == (0, "")
    assert all(is_gone(pid) for pid in process.stdout.split())


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    process = run(tmp_path, "if __name__ == '__main__':", "os.kill(os.getpid(), signal.SIGKILL)")
    assert process.returncode == -signal.SIGKILL
    assert process.stderr == ""
    for pid in process.stdout.split():
        assert ends_by_itself(int(pid))


def ends_by_itself(pid):
    """Return True if an orphaned process ends within a minute. Its new parent may leave it a zombie."""
    for _ in range(600):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_a_script_without_a_guard_raises_an_error_that_names_it(tmp_path):
    process = run(tmp_path, "if True:")
    assert process.returncode == 1
    assert "below `if __name__ == '__main__':`" in process.stderr.splitlines()[-1]
