"""`mage verify` reads a run line by line, whatever its size and the order of its lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import mage_envs
from mage_envs.benchmarks.loops.shared_run import LoopAgent, SharedWriter
from mage_envs.benchmarks.records import replay
from mage_envs.benchmarks.records.record_store import Records, read_about
from mage_envs.benchmarks.records.validate import check_run
from tests.benchmarks.loops.looping import play_rows


def test_batches_hold_the_last_line_of_each_meta_episode_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    assert play_rows(mage_envs.rows("kuhn-paper-16", out=run, agent="mine")) == 18
    assert LoopAgent("mine").name == read_about(run)["agent"]["name"]
    expected = check_run(run)
    assert expected == ([], Records(run).root()["root"], 18, 18)
    # A first attempt at row 3 that failed, in an earlier shard than the line that counts.
    trajectories = Records(run).trajectories()
    (run / "episodes" / "00000.jsonl.gz").rename(run / "episodes" / "00001.jsonl.gz")
    writer = SharedWriter(run, read_about(run))
    writer._shards = 0
    monkeypatch.setattr("mage_envs.benchmarks.loops.shared_run.shard_names", lambda folder: [])
    writer.write(3, replace(trajectories[3], failure="opponent: it failed"))
    assert len(list((run / "episodes").iterdir())) == 2
    monkeypatch.setattr(replay, "BATCH", 5)
    replayed = replay.replay_run(run)
    assert (replayed.meta_episodes, replayed.differences, replayed.damaged_lines) == (18, [], 0)
    assert replayed.calls == sum(len(trajectory.steps) for trajectory in trajectories)
    assert check_run(run) == expected
    assert replay.replay_run(run, sample=4).meta_episodes == 4
