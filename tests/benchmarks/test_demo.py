"""The demo, in a one-minute version."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from dev.demo_seeds import requirements
from mage_envs.benchmarks.demo.demo_table import HELD_OUT, TRAINING, DemoResult, blocks
from mage_envs.benchmarks.demo.run import DemoSettings, run, train
from mage_envs.cli.tables import as_text

pytestmark = pytest.mark.more
UNIFORM = -0.166
"""Chips per hand of a uniform player against the training opponents (exact to three digits)."""


def silent(text: str, milestone: bool) -> None:
    pass


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoResult]:
    out = tmp_path_factory.mktemp("demo")
    result = run(DemoSettings(seed=3, rollouts=8, rows=24), out, silent)
    assert result is not None
    return out, result


def test_it_beats_the_uniform_player_by_a_tenth_of_a_chip(demo):
    _, result = demo
    earned = np.mean([episode.returns.estimate.mean for episode in result.training.overall.episodes])
    assert earned >= UNIFORM + 0.1


def test_it_leaves_a_model_a_figure_and_numbers(demo):
    out, result = demo
    assert {"model.safetensors", "mage.json", "result.json", "adaptation.png"} <= {p.name for p in out.iterdir()}
    assert (out / "adaptation.png").read_bytes().startswith(b"\x89PNG")
    text = as_text(blocks(result))
    assert text.startswith(f"{result.judged.sentence()}.\n\nagent ")
    lines = ("  without its memory", "  with another's memory", "no memory", "best learner", "knows the opponent")
    for name in (*(f"  {group}" for group in (*TRAINING, *HELD_OUT, "all")), *lines):
        assert re.search(rf"^{re.escape(name)}  ", text, re.MULTILINE), name
    assert len(requirements(result)) == 7
    result_record = json.loads((out / "result.json").read_text())
    assert result_record["judged"]["sentence"] == result.judged.sentence()
    assert list(result_record["judged"]["controls"]) == ["without its memory", "with another's memory"]


def test_luck_adjusted_chips_are_those_that_were_paid(demo):
    _, result = demo
    adjusted = result.judged.row().episodes
    for chips, adjusted_estimate in zip(result.training.overall.episodes, adjusted, strict=True):
        paid = chips.returns.estimate
        assert max(adjusted_estimate.low, paid.low) < min(adjusted_estimate.high, paid.high), (
            "both estimate the same chips"
        )


def test_its_references_are_the_exact_values(demo):
    scale = demo[1].judged.scale
    assert scale.no_memory == pytest.approx((0.1599,) * 3, abs=1e-4)
    assert scale.best_learner == pytest.approx((0.1589, 0.2263, 0.2476), abs=1e-4)
    assert scale.knows_opponent == pytest.approx((0.2729,) * 3, abs=5e-5)


def test_the_readme_has_the_layout_of_the_command(demo):
    """Names of rows and columns, in their order; the figures are those of a whole run."""
    table = as_text(blocks(demo[1], notes=False)).splitlines()
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    [block] = [part for part in text.split("```") if "chips per hand" in part]

    def names(lines):
        rows = [line.strip() for line in lines if line.strip() and ":" not in line and not line.startswith("--")]
        return [re.split(r" +(?=[-+.\d]+[ \d])|  +", row)[0] for row in rows]

    readme_lines = block.strip("\n").splitlines()
    assert [name for name in names(table) if name in names(readme_lines)] == names(readme_lines)
    for head in ("agent ", "chips per hand "):
        [ours], [theirs] = (
            [line.split() for line in lines if line.startswith(head)] for lines in (table, readme_lines)
        )
        assert ours == theirs


def test_its_model_plays_as_an_opponent(demo):
    import gymnasium as gym

    import mage_envs  # noqa: F401

    env = gym.make("mage/KuhnPoker-v0", opponent=f"checkpoint:{demo[0]}")
    for seed in range(10):
        _, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(info["legal_actions"][0])


class Interrupt:
    """Presses Ctrl-C after a number of rollouts."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def __call__(self, text: str, milestone: bool) -> None:
        if text.startswith(f"training: rollout {self.num_steps}/"):
            raise KeyboardInterrupt


def test_an_interrupted_run_saves_its_model_and_resumes_where_it_stopped(tmp_path):
    settings = DemoSettings(seed=1, rollouts=13, groups=2)
    complete_result = train(settings, tmp_path / "whole", silent)
    assert train(settings, tmp_path / "parts", Interrupt(12)) is None
    assert (tmp_path / "parts" / "mage.json").exists()
    resumed = train(settings, tmp_path / "parts", silent)
    assert resumed == complete_result
    models = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    for name, value in models[0].items():
        assert np.array_equal(value, models[1][name]), name
