"""A tiny model trains on Sokoban through the same rollout and trainer as everything else."""

from __future__ import annotations

from pathlib import Path

from mage_envs.opponents import make_opponent
from tests.trainer.scripted_runs import Same, check, train


def test_the_winners_answers_become_likelier(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        "Sokoban",
        lambda game: make_opponent("sokoban/expert", game),
        lambda game: Same("up"),
        num_episodes=2,
        boxes=1,
        max_moves=8,
        max_turns=3,
        seed=1,
    )
    check(run)
    assert run.log["success/episode_1/1 box"] == 0.5
    assert run.log["metrics/dead/episode_2/1 box"] <= 0.5
    assert {"metrics/regret/episode_1", "value/episode_2/1 box"} <= set(run.log)
