"""A panel in training: scored as `mage eval` scores it, the best checkpoint kept, and the run ended by a rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites import panels
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.benchmarks.scale.in_training import PanelEvaluation
from mage_envs.benchmarks.scale.scale import Scale
from mage_envs.opponents import as_pool
from mage_envs.opponents.exact import headroom
from mage_envs.registry import make_game
from mage_envs.text.generation import Prompt
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.runs.console import evaluation_lines
from mage_envs.trainer.runs.panel_evaluation import LINES
from mage_envs.trainer.runs.run_folder import checkpoints
from mage_envs.trainer.runs.summary import FIGURE
from mage_envs.trainer.trl.evaluation import evaluation_sampling, gain_of, override_sampling
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.training_log import metric_rows
from mage_envs.wrappers.rollout.trajectory import EpisodeResult
from tests.trainer.tiny_runs import make_trainer, save_model, trajectory

NAME = "kuhn-mini"
OPPONENTS = {"kuhn/rock": 1.0, "kuhn/maniac": 1.0}
PANEL = Panel(env_id="mage/KuhnPoker-Meta-v0", opponents=OPPONENTS, seed=70, rows_per_cell=1, about="for a test")
OPTIONS: dict[str, Any] = {
    "eval_panel": NAME,
    "eval_every": 1,
    "updates_per_rollout": 1,
    "groups_per_rollout": 1,
    "max_rollouts": 6,
    "save_strategy": "steps",
    "save_steps": 100,
    "save_total_limit": 1,
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    known_panels = panels._own_panels()
    monkeypatch.setattr(panels, "_own_panels", lambda: known_panels | {NAME: PANEL})
    return save_model(tmp_path / "model")


def make_scripted_generator(trainer: Any) -> ScriptedGenerator:
    """Bets and calls after two updates, and folds and checks before and after that."""

    def answer(prompt: Prompt) -> str:
        words = ("bet", "call") if trainer.state.global_step == 2 else ("fold", "check")
        return next((word for word in words if word in prompt.legal_actions), prompt.legal_actions[0])

    return ScriptedGenerator(answer, ChatTokenizer(trainer.processing_class))


def test_the_best_checkpoint_is_kept_and_the_run_ends_without_a_better_one(model: str, tmp_path: Path) -> None:
    trainer = make_trainer(model, tmp_path / "run", generator=make_scripted_generator, early_stop=2, **OPTIONS)
    trainer.train()
    rows = metric_rows(tmp_path / "run", "eval")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]  # two evaluations in a row are not better than the second
    assert rows[1]["score"] > rows[0]["score"] == rows[2]["score"] == rows[3]["score"]
    assert (trainer.state.best_global_step, trainer.state.best_metric) == (2, rows[1]["score"])
    assert trainer.control.should_training_stop
    assert "checkpoint-2" in [path.name for path in checkpoints(tmp_path / "run")]
    expected = {"success/episode_2", "value/episode_1", "pass_at_1", "pass_at_2", "ceiling/episode_1"}
    assert expected | {f"{key}/kuhn/rock" for key in expected} <= set(rows[0])
    assert rows[0]["ceiling/episode_1"] >= rows[0]["value/episode_1"]
    assert "kuhn/maniac" in rows[0]["table"]
    logged = [row for row in trainer.state.log_history if "eval_score" in row]
    assert [row["eval_score"] for row in logged] == [row["score"] for row in rows]


def test_evaluations_are_sampled_as_the_protocol_says(model: str, tmp_path: Path) -> None:
    paper = PlaySettings("mage/KuhnPoker-Meta-v0", {"protocol": "paper"})
    assert evaluation_sampling(paper, RunSettings()) == (0.7, 0.8, 20)
    assert evaluation_sampling(paper, RunSettings(eval_temperature=0.5, eval_top_k=3)) == (0.5, 0.8, 3)
    assert evaluation_sampling(PlaySettings("x", {"protocol": "adaptive"}), RunSettings()) == (1.0, 1.0, 0)
    trainer = make_trainer(model, tmp_path / "run", generator=None, **OPTIONS)
    with override_sampling(trainer, trainer.player.generator, 0.7, 0.8, 20):
        config = trainer.generation_config
        assert (config.temperature, config.top_p, config.top_k) == (0.7, 0.8, 20)
    assert (trainer.generation_config.temperature, trainer.generation_config.top_p) == (1.0, 1.0)
    generator = CachedGenerator(trainer.model, ChatTokenizer(trainer.processing_class))  # type: ignore[arg-type]
    sampling_before = generator.sampling
    with override_sampling(trainer, generator, 0.7, 0.8, 20):
        assert (generator.sampling.temperature, generator.sampling.top_p, generator.sampling.top_k) == (0.7, 0.8, 20)
    assert generator.sampling is sampling_before


def test_an_evaluation_states_the_level_of_mage_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = as_pool("pool:kuhn/paper")
    panel = replace(PANEL, opponents=dict(zip(map(str, pool.entries), pool.weights, strict=True)), rows_per_cell=2)
    known_panels = panels._own_panels()
    monkeypatch.setattr(panels, "_own_panels", lambda: known_panels | {NAME: panel})
    evaluation = PanelEvaluation(NAME, {"protocol": "adaptive", "num_episodes": 3, "memory": "history"})
    agent = make_agent("policy:bayes:kuhn/paper,3,1,sum")
    scored = evaluation.scored(evaluate(agent, evaluation.tasks, evaluation.options), step=3)
    # The best learner loses nothing at any decision.
    assert scored.metrics["level"] == pytest.approx(1.0, abs=1e-9)
    assert scored.table.startswith("after update 3: level 1.00 ± ")
    worse = evaluation.scored(evaluate(make_agent("policy:kuhn/rock"), evaluation.tasks, evaluation.options), step=4)
    assert worse.metrics["level"] < 0


def test_an_evaluation_shows_the_value_with_the_exact_lines_and_the_part_of_memory(
    model: str, tmp_path: Path, capsys: Any
) -> None:
    changes: dict[str, Any] = {**OPTIONS, "max_rollouts": 2, "eval_memory_every": 2, "disable_tqdm": True}
    drawn: list[bool] = []
    trainer = make_trainer(model, tmp_path / "run", generator=make_scripted_generator, **changes)
    log = trainer.run_log.on_evaluation

    def watch(*args: Any) -> None:
        drawn.append((tmp_path / "run" / FIGURE).exists())
        log(*args)

    trainer.run_log.on_evaluation = watch
    trainer.train()
    first_row, second_row = metric_rows(tmp_path / "run", "eval")
    assert first_row["measure"] == second_row["measure"] == "value"
    # The lines are those of `mage headroom` for both opponents and two episodes.
    values = headroom(make_game("KuhnPoker"), OPPONENTS, episodes=2, hands=2, seat="alternate")
    scale = Scale.of(values, 2, -2.0, 2.0)
    assert list(LINES.values()) == list(scale.lines())
    for name, title in LINES.items():
        assert [first_row[f"{name}/episode_{k}"] for k in (1, 2)] == pytest.approx(scale.lines()[title], abs=1e-12)
    # Replies of this generator do not depend on memory, so both gains are equal.
    assert "gain/own_memory" not in first_row
    assert second_row["gain/own_memory"] == pytest.approx(second_row["gain/no_memory"], abs=1e-12)
    lines = capsys.readouterr().err
    assert "    value by episode " in lines
    assert "; no memory " in lines
    assert lines.count(" without memory: memory is worth +0.000 ± 0.000") == 1
    assert drawn == [False, True], "the figure is drawn at each evaluation"


def test_gains_are_per_hand_or_of_success() -> None:
    results = [
        EpisodeResult(reward=0.0, value=v, hands=2, success=v > 0, timeout=False, seats=(0,)) for v in (-2.0, 4.0)
    ]
    played = replace(trajectory([]), episodes=tuple(results), num_episodes=2)
    assert gain_of(played, "value") == 3.0
    assert gain_of(played, "success") == 1.0


def test_rows_of_an_evaluation_without_exact_lines() -> None:
    metrics = {"success/episode_1": 0.25, "success/episode_2": 0.75, "gain/own_memory": 0.5, "gain/no_memory": 0.125}
    metrics |= {"gain/part_of_memory": 0.375, "gain/half": 0.25}
    assert evaluation_lines(metrics, "success") == [
        "success by episode .25 .75",
        "gain +0.500 from the first to the last episode, +0.125 without memory: memory is worth +0.375 ± 0.250",
    ]
    metrics = {"value/episode_1": -0.25, "no_memory/episode_1": 0.125, "knows_opponent/episode_1": 0.5}
    assert evaluation_lines(metrics, "value") == ["value by episode -.25; no memory .12; knows the opponent .50"]
