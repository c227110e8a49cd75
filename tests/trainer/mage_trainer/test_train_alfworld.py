"""A tiny model trains on ALFWorld through the same rollout and trainer as everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.opponents import make_opponent
from tests.packages import needs_alfworld
from tests.trainer.scripted_runs import Same, check, train

pytestmark = [needs_alfworld, pytest.mark.more]


def test_the_winners_answers_become_likelier(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        "ALFWorld",
        lambda game: make_opponent("alfworld/expert", game),
        lambda game: Same("look"),
        num_episodes=2,
        size="tiny",
        max_turns=8,
    )
    check(run)
    kinds = {key.rpartition("/")[2] for key in run.log if key.startswith("success/episode_1/")}
    assert kinds
    assert kinds <= set(TASK_TYPES)
    assert all(run.log[f"success/episode_2/{kind}"] == 0.5 for kind in kinds)
    assert "metrics/plan_length/episode_1" in run.log
