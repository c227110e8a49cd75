"""Populations in training: PFSP by results, a league of past selves, and both through a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mage_envs.opponents import PrioritisedPool
from mage_envs.trainer import MAGETrainer
from mage_envs.trainer.trl.population import results_of
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory
from tests.programs import train as main
from tests.trainer.tiny_runs import POOL, TINY, flags, make_config, make_env, save_model

ARGUMENTS = [
    *TINY,
    *flags(preset="mage-kuhn", groups_per_rollout=2, updates_per_rollout=1, num_episodes=2, memory="none"),
    *flags(save_steps=1, population="league", league_every=1, league_share=0.5),
]


def population_of(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "trainer_state.json").read_text())
    population: dict[str, Any] = state["stateful_callbacks"]["RolloutProgress"]["attributes"]["population"]
    return population


def test_a_league_meets_its_past_selves_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*ARGUMENTS, "--output_dir", "whole", "--max_rollouts", "4"]) == 0
    assert main([*ARGUMENTS, "--output_dir", "again", "--max_rollouts", "2"]) == 0
    assert main([*ARGUMENTS, "--output_dir", "again", "--max_rollouts", "4", "--resume"]) == 0
    unbroken, resumed = (population_of(Path(name) / "checkpoint-4") for name in ("whole", "again"))
    assert json.dumps(resumed).replace("again/", "whole/") == json.dumps(unbroken)
    assert unbroken["selves"] == [f"checkpoint:whole/league/step-{step}" for step in (1, 2, 3)]
    snapshots = [name for row in unbroken["payoffs"] for name in row if name.startswith("checkpoint:")]
    assert snapshots
    assert sum(count for row in unbroken["payoffs"] for _, count in row.values()) == 16
    for step in (1, 2, 3):
        assert (tmp_path / "whole" / "league" / f"step-{step}" / "mage.json").exists()


def test_a_checkpoint_of_another_kind_of_population_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [*ARGUMENTS, "--output_dir", str(tmp_path)]
    assert main([*common, "--population", "fixed", "--max_rollouts", "1"]) == 0
    assert main([*common, "--max_rollouts", "2", "--resume"]) == 2
    assert "Resume with the settings that the run began with." in capsys.readouterr().err


def test_prioritised_sampling_follows_the_results(tmp_path: Path) -> None:
    pool = PrioritisedPool(POOL)
    weights_seen: list[dict[str, float]] = []
    trainer = MAGETrainer(
        save_model(tmp_path / "model"),
        make_config(tmp_path, max_rollouts=2),
        make_env,
        pool,
        on_rollout_end=lambda trainer, trajectories: weights_seen.append(dict(trainer.population.weights())),  # type: ignore[union-attr]
    )
    trainer.train()
    assert len(weights_seen) == 2
    assert weights_seen[0] != pytest.approx(dict.fromkeys(POOL, 0.5))
    assert trainer.progress.population == pool.state()


def test_scores_of_meta_episodes() -> None:
    def make_trajectory(
        *episodes: tuple[float, bool, bool], failure: str | None = None, opponent: str = "x"
    ) -> Trajectory:
        results = tuple(
            EpisodeResult(reward=0.0, value=value, hands=1, success=success, timeout=timeout, seats=(0,))
            for value, success, timeout in episodes
        )
        return Trajectory(
            task=None,  # type: ignore[arg-type]
            opponent=opponent,
            group=0,
            member=0,
            steps=(),
            episodes=results,
            num_episodes=3,
            failure=failure,
        )

    win, loss, draw, late = (1.0, True, False), (-1.0, False, False), (0.0, False, False), (0.0, False, True)
    assert results_of(
        [
            make_trajectory(win, draw),
            make_trajectory(loss, late),
            make_trajectory(win, failure="x"),
            make_trajectory(win, opponent=""),
        ]
    ) == [("x", 0.75), ("x", 0.0)]


def test_bad_settings_get_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="population='leage' is unknown; choose one of: fixed, prioritised, league"):
        make_config(tmp_path, population="leage")
    with pytest.raises(ValueError, match="league_every=0"):
        make_config(tmp_path, population="league", league_every=0)
