"""Loops record what `mage eval` records: equal replies have equal roots and equal scores, however the loop runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import mage_envs
from mage_envs.benchmarks.loops.recorded_env import RecordedEnv
from mage_envs.benchmarks.loops.shared_run import LoopAgent, OwnRun, settle_folder
from mage_envs.benchmarks.records.identity import OtherRun
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.core import Policy
from mage_envs.files.locking import FolderLock
from tests.benchmarks.loops.function_agents import reply
from tests.benchmarks.loops.looping import Book, play, play_rows, root_of
from tests.processes import ROOT

PANEL = "kuhn-paper-16"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of `mage eval` with the replies of the loops."""
    folder = tmp_path_factory.mktemp("evaluated") / "run"
    mage_envs.evaluate(reply, PANEL, controls=True, out=folder)
    return folder


def test_a_policy_a_loop_and_a_function_with_equal_replies_have_equal_roots_and_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = ("--memory", "history")
    assert main(["eval", "policy:myopic:kuhn/paper,3,1", "--panel", PANEL, *memory, "--out", str(tmp_path / "a")]) == 0
    book = Book(tmp_path / "a")
    assert play_rows(mage_envs.rows(PANEL, out=tmp_path / "b", memory="history", controls=True), book.answer) == 54
    mage_envs.evaluate(book.answer, PANEL, memory="history", controls=True, out=tmp_path / "c")
    for part in ("", "controls/none", "controls/other"):
        assert root_of(tmp_path / "a" / part) == root_of(tmp_path / "b" / part) == root_of(tmp_path / "c" / part)
    printed = {}
    for name in ("a", "b", "c"):
        for command in (["adapt", str(tmp_path / name), "--json"], ["eval", "--from", str(tmp_path / name), "--json"]):
            capsys.readouterr()
            assert main(command) == 0
            values = json.loads(capsys.readouterr().out)
            del values["agent"], values["scale"]["sentence"]
            for row in (values["overall"], *values["rows"]):
                del row["costs"]["seconds"]
            printed[name, command[0]] = values
    assert printed["a", "adapt"]["scale"]["verdict"] is not None
    assert all(values == printed["a", "eval"] for values in printed.values())
    assert main(["verify", "--replay", str(tmp_path / "b")]) == 0
    assert main(["verify", str(tmp_path / "b")]) == 0


@pytest.mark.more
def test_a_loop_in_a_suite_has_the_scores_of_the_policy_whose_replies_it_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", "policy:myopic", "--suite", "adapt-mini", "--out", str(tmp_path / "a")]) == 0
    rows = mage_envs.rows("adapt-mini", out=tmp_path / "b", agent="book", pool="hidden")
    assert play_rows(rows, Book(tmp_path / "a").answer) == 291
    suites = [json.loads((tmp_path / name / "suite.json").read_text()) for name in ("a", "b")]
    assert suites[0]["root"] == suites[1]["root"] is not None
    capsys.readouterr()
    assert main(["adapt", str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "a" / "adapt.txt").read_text().replace("policy:myopic", "book")
    # Nothing is left to play.
    assert play_rows(mage_envs.rows("adapt-mini", out=tmp_path / "b", agent="book", pool="hidden")) == 0


def test_tasks_of_asyncio_share_the_rows(tmp_path: Path, evaluated: Path) -> None:
    async def play_one(env: Any, info: dict[str, Any]) -> None:
        over = False
        while not over:
            await asyncio.sleep(0)
            _, _, terminated, truncated, info = env.step(reply(info["messages"]))
            over = terminated or truncated

    async def play_all() -> None:
        tasks = []
        # The control `other` waits for the main run, and the tasks go on meanwhile.
        async for env, _, info in mage_envs.rows(PANEL, out=tmp_path / "run", controls=True):
            tasks.append(asyncio.create_task(play_one(env, info)))
        await asyncio.gather(*tasks)

    asyncio.run(play_all())
    for part in ("", "controls/none", "controls/other"):
        assert root_of(tmp_path / "run" / part) == root_of(evaluated / part)


def run_loop(out: Path, threads: int, dies_after: int = -1) -> subprocess.Popen[bytes]:
    module = "tests.benchmarks.loops.looping"
    return subprocess.Popen([sys.executable, "-m", module, str(out), str(threads), str(dies_after)], cwd=ROOT)


@pytest.mark.timeout(240)
def test_64_writers_and_a_kill_lose_nothing(tmp_path: Path) -> None:
    killed = run_loop(tmp_path / "run", 32, dies_after=20)
    assert killed.wait() == -9
    records = Records(tmp_path / "run")
    # Those that had ended; others may have ended while the process died.
    assert 20 <= len(records.lines) < 132
    assert records.problems == []
    kept = {index: line["seconds"] for index, line in records.lines.items()}
    # Now 64 writers, in two processes.
    writers = [run_loop(tmp_path / "run", 32) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    records = Records(tmp_path / "run")
    assert records.missing == []
    # Their times show that they were not played again.
    assert {index: records.lines[index]["seconds"] for index in kept} == kept
    mage_envs.evaluate(reply, "kuhn-paper-128", out=tmp_path / "expected")
    assert (tmp_path / "run" / "root.json").read_text() == (tmp_path / "expected" / "root.json").read_text()
    names = ["episodes", "root.json", "run.json"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == names


def test_a_row_that_is_dropped_is_played_by_the_next_loop(tmp_path: Path, evaluated: Path) -> None:
    rows = iter(mage_envs.rows(PANEL, out=tmp_path / "run", controls=True))
    env, *_ = next(rows)
    env.step("I think that")
    # The loop variable would keep the environment, and so its row.
    del env
    with pytest.raises(RuntimeError, match=r"Row 0 of .* was started and not finished.*Run the loop again"):
        play_rows(rows)
    assert Records(tmp_path / "run").missing == [0]
    assert play_rows(mage_envs.rows(PANEL, out=tmp_path / "run", controls=True)) == 1 + 18
    assert root_of(tmp_path / "run") == root_of(evaluated)


class Failing(Policy):
    """An opponent that fails until it is mended."""

    mended = False

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        if not self.mended:
            raise ArithmeticError("not today")
        return str(turn.legal_actions[0])


def test_a_failure_is_recorded_and_played_again(tmp_path: Path) -> None:
    name = "loops/failing"
    mage_envs.register_opponent(name, games=["KuhnPoker"])(Failing)
    env = mage_envs.record(_make(opponent=name), out=tmp_path / "run")
    _, info = env.reset(seed=1, options={"seat": 0})
    with pytest.raises(mage_envs.OpponentFailure, match="not today"):
        play(env, info, reply)
    env.close()
    [line] = Records(tmp_path / "run").lines.values()
    assert line["failure"].startswith("opponent: ")
    assert line["failed_reply"]["text"] == reply(info["messages"])
    [failure] = [json.loads(text) for text in (tmp_path / "run" / "failures.jsonl").read_text().splitlines()]
    assert "ArithmeticError" in failure["traceback"]
    Failing.mended = True
    with pytest.raises(RuntimeError, match="Call reset before step"):
        env.step("x")
    _, info = env.reset(seed=1, options={"seat": 0})
    play(env, info, reply)
    env.close()
    assert [line["failure"] is None for line in Records(tmp_path / "run").lines.values()] == [False, True]


def _make(**options: Any) -> Any:
    import gymnasium as gym

    return gym.make("mage/KuhnPoker-Meta-v0", **options)


def test_any_environment_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seeds in (range(6), range(6, 9)):
        env = mage_envs.record(_make(num_episodes=2), out=tmp_path / "run", agent="mine")
        for seed in seeds:
            _, info = env.reset(seed=seed)
            play(env, info, lambda messages: mage_envs.Completion(reply(messages), tokens=(9, 2), reasoning="why"))
        env.close()
    records = Records(tmp_path / "run")
    assert [line["task"]["seed"] for _, line in sorted(records.lines.items())] == list(range(9))
    # What the environment drew is named, so that a reader meets the same opponent in the same seat.
    assert all(line["task"]["opponent"] and line["task"]["seat"] in (0, 1) for line in records.lines.values())
    assert records.lines[0]["calls"][0]["tokens"] == [9, 2]
    assert records.lines[0]["calls"][0]["reasoning"] == "why"
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert main(["verify", "--replay", str(tmp_path / "run")]) == 0
    assert main(["eval", "--from", str(tmp_path / "run")]) == 0
    assert "rows of a loop, 9 meta-episodes" in capsys.readouterr().out


def test_writers_that_go_on_after_the_lines_were_put_in_order_lose_nothing(tmp_path: Path) -> None:
    runs = [OwnRun(tmp_path / "run", _make(num_episodes=1), LoopAgent("mine")) for _ in range(2)]
    envs = [RecordedEnv(_make(num_episodes=1), run.env_id, run.add) for run in runs]
    for number, seed in enumerate((0, 1, 2, 3, 4, 5)):
        _, info = envs[number % 2].reset(seed=seed)
        play(envs[number % 2], info, reply)
        if number % 2:
            # The lines of both shards are merged into one.
            settle_folder(tmp_path / "run")
    settle_folder(tmp_path / "run")
    records = Records(tmp_path / "run")
    assert [line["task"]["seed"] for _, line in sorted(records.lines.items())] == list(range(6))
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_player_alone_is_recorded(tmp_path: Path) -> None:
    import gymnasium as gym

    env = mage_envs.record(gym.make("mage/Sokoban-Meta-v0", max_turns=2, num_episodes=2), out=tmp_path / "run")
    for _ in range(2):
        _, info = env.reset()
        play(env, info, lambda messages: "<action>up</action>")
    env.close()
    assert main(["verify", "--replay", str(tmp_path / "run")]) == 0


def test_wrong_arguments_are_one_line(tmp_path: Path, evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import gymnasium as gym

    env = mage_envs.record(_make(opponent="kuhn/nash"), out=tmp_path / "run", agent="mine")
    env.reset(seed=1)
    with pytest.raises(TypeError, match="expects a text or mage_envs.Completion, got int"):
        env.step(3)
    with pytest.raises(ValueError, match="has the options opponent, seat, task, rotation, got 'oponent'"):
        env.reset(seed=1, options={"oponent": "uniform"})
    with pytest.raises(LookupError, match="Did you mean 'kuhn/nash'"):
        env.reset(seed=1, options={"opponent": "kuhn/nsh"})
    _, info = env.reset(seed=1, options={"opponent": "uniform"})
    with pytest.raises(ValueError, match="records the pool kuhn/nash, and uniform is not in it"):
        play(env, info, reply)
    _, info = env.reset(seed=1)
    play(env, info, reply)
    for make, message in (
        (
            lambda: mage_envs.record(_make(opponent="kuhn/nash"), out=tmp_path / "run", agent="b"),
            "holds a run with other",
        ),
        (lambda: mage_envs.record(_make(), out=tmp_path / "run", agent="mine"), "holds a run with other settings"),
        (lambda: mage_envs.record(gym.make("mage/KuhnPoker-v0"), out=tmp_path / "x"), "an id that ends with -Meta-v0"),
        (lambda: mage_envs.record(gym.wrappers.TimeLimit(_make(), 3), out=tmp_path / "x"), "Put other wrappers around"),
        (lambda: mage_envs.record(_make(opponent=Failing()), out=tmp_path / "x"), "has one without a name"),
        (lambda: mage_envs.record(_make(), out=tmp_path / "x", agent=" "), "needs the name of its agent"),
        (lambda: mage_envs.rows("kuhn-papr", out=tmp_path / "x"), "Unknown panel 'kuhn-papr'. Did you mean"),
        (lambda: mage_envs.rows(PANEL, out=tmp_path / "x", pool="hidden"), "pool applies to the suites adapt and"),
        (lambda: mage_envs.rows("adapt-mini", out=tmp_path / "x", options={"style": "paper"}), "Remove options"),
        (lambda: next(iter(mage_envs.rows(PANEL, out=evaluated, agent="another"))), "holds a run with other settings"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    assert main(["adapt", str(tmp_path / "run")]) == 2
    assert "cannot be judged exactly" in capsys.readouterr().err


def test_a_run_that_is_being_played_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage_envs.files.locking.WAIT_S", 0.0)
    code = "import sys, time; from pathlib import Path; from mage_envs.files.locking import FolderLock\n"
    code += f"with FolderLock(Path({str(tmp_path / 'run')!r})):\n    print('locked', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(OSError, match=r"is in use by process \d+, which writes there"):
        next(iter(mage_envs.rows(PANEL, out=tmp_path / "run")))
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with FolderLock(tmp_path / "run"):
        pass


def test_a_run_of_a_panel_gets_no_rows_of_another_loop(tmp_path):
    """Its run.json would name other rows than its records."""
    assert main(["eval", "scripted:first", "--panel", "kuhn-paper-16", "--no-baselines", "--out", str(tmp_path)]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(OtherRun, match=r"holds a run of kuhn-paper-16, whose rows are given\. Record in"):
        mage_envs.record(gym.make("mage/KuhnPoker-Meta-v0"), out=tmp_path, agent="scripted:first")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("tokens", [5, ("a", -2), (1,), (1, True), [1, 2]])
def test_a_completion_of_a_user_is_checked(tokens, tmp_path):
    env = mage_envs.record(gym.make("mage/KuhnPoker-Meta-v0"), out=tmp_path / "run", agent="mine")
    env.reset(seed=1)
    with pytest.raises(TypeError, match=r"step\(\): tokens of a Completion must be those of the prompt and of"):
        env.step(mage_envs.Completion("<action>check</action>", tokens=tokens))
    with pytest.raises(TypeError, match=r"step\(\): the text of a Completion must be a str, got NoneType"):
        env.step(mage_envs.Completion(None))


@pytest.mark.parametrize("agent", [None, "", 3])
def test_a_loop_needs_a_name_and_a_folder(agent, tmp_path):
    with pytest.raises(ValueError, match="A recorded run needs the name of its agent, such as agent='my agent'"):
        next(iter(mage_envs.rows("kuhn-paper-16", out=tmp_path / "run", agent=agent)))
    (tmp_path / "file").write_text("mine")
    for panel in ("kuhn-paper-16", "adapt-mini"):
        with pytest.raises(ValueError, match=r"file is a file\. Name a folder with out\."):
            next(iter(mage_envs.rows(panel, out=tmp_path / "file", agent="mine")))
    assert (tmp_path / "file").read_text() == "mine"
