"""The corpus of hostile answers in whole runs: they end, count each failure by its kind, and keep everything else."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.opponents.llm import calls as bounds
from mage_envs.text.parser import NO_TEXT
from mage_envs.trainer import MAGETrainer
from mage_envs.wrappers.rollout.training_log import metric_rows
from tests.opponents.llm.hostile_modes import ANSWER, MODES, OVERFLOW, Mode
from tests.opponents.llm.hostile_server import MIXED, HostileServer
from tests.trainer.tiny_runs import make_config, make_scripted_generator, save_model

FAILURES = [mode for mode in MODES if mode.kind not in (ANSWER, OVERFLOW, *NO_TEXT)]
OTHERS = [mode for mode in MODES if mode.kind in (ANSWER, OVERFLOW, *NO_TEXT)]
ONE_EPISODE = ("--env", "mage/KuhnPoker-Meta-v0", "--episodes", "1")

HONEST = 3
"""Attempts if nothing may fail: the server ends a connection after its answer, and a request may just miss that."""

Start = Callable[[Iterable[Mode]], HostileServer]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers that end with the test. The bounds are smaller than usual, so that it takes seconds."""
    monkeypatch.setattr(bounds, "MOST_BYTES", 500_000)
    running: list[HostileServer] = []

    def start(plan: Iterable[Mode]) -> HostileServer:
        running.append(HostileServer(plan))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def model(server: HostileServer, deadline: int = 1, attempts: int = 1) -> str:
    return f"llm:m@{server.url(MIXED)},deadline={deadline},attempts={attempts},cache=off"


def status(words: list[str]) -> int | str | None:
    """The status that the command ends with."""
    with pytest.raises(SystemExit) as exit_info:
        main(words)
    return exit_info.value.code


def failures(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]


def kind_of(reason: str) -> str:
    """The kind of a call's failure in the reason of a meta-episode's."""
    kinds = "|".join({mode.kind for mode in FAILURES})
    match = re.search(rf"(?:^|could not be asked: )({kinds}): ", reason)
    assert match, reason
    return match[1]


def check_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that reads the run reads it."""
    assert main(["verify", str(folder)]) == 0
    assert main(["verify", "--replay", str(folder)]) == 0
    assert main(["report", str(folder), "--out", str(folder.parent / "report.html")]) == 0
    capsys.readouterr()
    assert main(["compare", str(folder), "--page", str(folder.parent / "board.csv")]) == 0


@pytest.mark.more
@pytest.mark.timeout(300)
def test_an_agent_in_eval(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each hostile answer is one failed attempt, and nothing else fails."""
    server, out = start(FAILURES), tmp_path / "run"
    words = ["eval", model(server, 3), *ONE_EPISODE, "--opponents", "kuhn/nash", "--rows", "128", "--out", str(out)]
    assert status(words) == 3
    assert not server.plan, "every mode was met"
    rows = failures(out)
    assert Counter(kind_of(row["reason"]) for row in rows) == Counter(mode.kind for mode in FAILURES)
    assert {row["kind"] for row in rows} == {"generator"}
    records = Records(out)
    assert len(records.lines) == records.planned == 256
    assert len(records.failed) == sum(row["given_up"] for row in rows)
    assert f"by what broke: generator {len(records.failed)}" in capsys.readouterr().out
    check_commands(out, capsys)


def test_an_agent_that_says_nothing_or_says_it_oddly(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing fails. Answers without text do not count as invalid moves, and every table counts them."""
    server, out = start(OTHERS), tmp_path / "run"
    words = [
        "eval",
        model(server, 3, HONEST),
        *ONE_EPISODE,
        "--opponents",
        "kuhn/nash",
        "--rows",
        "64",
        "--wide",
        "--out",
        str(out),
    ]
    assert main(words) == 0
    assert not server.plan
    assert not (out / "failures.jsonl").exists()
    calls = [call for line in Records(out).lines.values() for call in line["calls"]]
    reasons = Counter(call["invalid_reason"] for call in calls)
    expected = Counter(mode.kind for mode in OTHERS)
    assert {kind: reasons[kind] for kind in (*NO_TEXT, OVERFLOW)} == {
        kind: expected[kind] for kind in (*NO_TEXT, OVERFLOW)
    }
    count = sum(expected[kind] for kind in NO_TEXT)
    share = f"{count / len(calls):.1%}"
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("play ")).split()[-1] == share
    check_commands(out, capsys)
    [entry] = csv.DictReader((out.parent / "board.csv").read_text().splitlines())
    assert (entry["failed"], entry["no text"]) == ("0", share)
    page = (tmp_path / "report.html").read_text()
    assert f"<td>{count}</td>" in page
    assert f"<td>{share}</td>" in page


@pytest.mark.more
@pytest.mark.timeout(300)
def test_an_opponent_in_eval(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each hostile answer fails its meta-episode, twice, as the second attempt asks the same."""
    server, out = start(FAILURES), tmp_path / "run"
    words = ["eval", "scripted:random", *ONE_EPISODE, "--opponents", f"{model(server)};", "--rows", "160"]
    assert status([*words, "--out", str(out)]) == 3
    assert not server.plan
    rows = failures(out)
    kinds = Counter(kind_of(row["reason"]) for row in rows)
    assert kinds.keys() == {mode.kind for mode in FAILURES}
    assert kinds.total() >= len(FAILURES)
    assert {row["kind"] for row in rows} == {"opponent"}
    records = Records(out)
    assert len(records.lines) == records.planned
    assert len(records.failed) == sum(row["given_up"] for row in rows) < records.planned
    check_commands(out, capsys)


def test_an_opponent_that_says_nothing(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Query the opponent again if its text is missing. The records contain the reasons, and are replayed."""
    plan = [mode for mode in OTHERS if mode.kind in NO_TEXT]
    server, out = start(plan), tmp_path / "run"
    words = ["eval", "scripted:first", *ONE_EPISODE, "--opponents", f"{model(server, 3, HONEST)};", "--rows", "40"]
    assert main([*words, "--out", str(out)]) == 0
    assert not server.plan
    calls = [call for line in Records(out).lines.values() for call in line.get("opponent_calls", ())]
    assert Counter(call["no_text"] for call in calls if "no_text" in call) == Counter(mode.kind for mode in plan)
    check_commands(out, capsys)


@pytest.mark.more
@pytest.mark.timeout(300)
def test_an_opponent_in_training(start: Start, tmp_path: Path) -> None:
    """The run ends after all of its rollouts, and its logs count every failure."""
    server = start(mode for mode in MODES if mode.kind != OVERFLOW)  # which has no kind in an opponent's failure
    changes = {"groups_per_rollout": 120, "max_rollouts": 3, "updates_per_rollout": 1, "failure_threshold": 1.0}
    trainer = MAGETrainer(
        save_model(tmp_path / "model"),
        make_config(tmp_path / "run", **changes),
        partial(gym.make, "mage/KuhnPoker-Meta-v0", style="words", num_episodes=1, disable_env_checker=True),
        {model(server): 1.0},
        generator=make_scripted_generator,
    )
    trainer.train()
    assert not server.plan, "every mode was met"
    rows = failures(tmp_path / "run")
    assert {kind_of(row["reason"]) for row in rows} >= {mode.kind for mode in FAILURES}
    assert {row["kind"] for row in rows} == {"opponent"}
    rollouts = metric_rows(tmp_path / "run", "rollout")
    assert len(rollouts) == 3
    assert sum(rollout.get("failures/opponent", 0) for rollout in rollouts) == len(rows)
    assert all(rollout["failures"] < 200 for rollout in rollouts), "the other meta-episodes are there"
