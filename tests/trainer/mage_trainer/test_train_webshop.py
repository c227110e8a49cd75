"""A tiny model trains on WebShop through the same rollout and trainer as everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage_envs.opponents import make_opponent
from tests.trainer.scripted_runs import Same, check, train


@pytest.mark.more
def test_the_winners_answers_become_likelier(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        "WebShop",
        lambda game: make_opponent("webshop/oracle", game),
        lambda game: Same("search[chair]"),
        num_episodes=2,
        size="tiny",
        max_turns=5,
    )
    check(run)
    assert run.log["success/episode_1/train"] == 0.5
    assert run.log["success/episode_2/train"] == 0.5
    assert {"metrics/task_score/episode_1", "value/episode_2/train"} <= set(run.log)
