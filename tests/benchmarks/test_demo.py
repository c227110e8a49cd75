"""The demo, in a one-minute version."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from benchmarks.demo.demo_table import HELD_OUT, TRAINING, DemoResult, blocks, requirements
from benchmarks.demo.run import DemoSettings, run, train
from benchmarks.evaluation.scoring.scores import Summary
from mage_envs.cli.tables import as_text

UNIFORM = -0.166
"""What a uniform player earns against the training opponents, in chips per hand (exact to three digits)."""


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
    for name in (
        *TRAINING,
        *HELD_OUT,
        "no memory",
        "another's memory in episode 3",
        "Bayes-optimal",
        "regret",
        "luck-adjusted",
    ):
        assert name in text
    assert len(requirements(result)) == 6
    assert len(result.adjusted) == len(result.regret) == 3
    for chips, one in zip(result.training.overall.episodes, result.adjusted, strict=True):
        earned = chips.returns.estimate
        assert max(one.low, earned.low) < min(one.high, earned.high), "both estimate the same chips"
    assert re.search(r"\n  all .*%, -?\d+%\]", text), "the share has an interval"


def test_its_references_are_the_exact_values(demo):
    overall: Summary = demo[1].training
    final = overall.overall.episodes[-1].returns
    assert final.uninformed == pytest.approx(0.1209, abs=5e-5)
    assert final.ceiling == pytest.approx(0.2729, abs=5e-5)
    assert demo[1].optimal == pytest.approx((0.1589, 0.2263, 0.2476), abs=1e-4)
    assert all(0 < one.mean < 0.5 for one in demo[1].regret)


def test_its_model_plays_as_an_opponent(demo):
    import gymnasium as gym

    import mage_envs  # noqa: F401

    env = gym.make("mage/KuhnPoker-v0", opponent=f"checkpoint:{demo[0]}")
    for seed in range(10):
        _, info = env.reset(seed=seed)
        done = False
        while not done:
            _, _, done, _, info = env.step(info["legal_actions"][0])


class Interrupt:
    """Presses Ctrl-C after a number of rollouts."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, text: str, milestone: bool) -> None:
        if text.startswith(f"training: rollout {self.after}/"):
            raise KeyboardInterrupt


def test_an_interrupted_run_saves_its_model_and_goes_on_where_it_stopped(tmp_path):
    settings = DemoSettings(seed=1, rollouts=13, groups=2)
    whole = train(settings, tmp_path / "whole", silent)
    assert train(settings, tmp_path / "parts", Interrupt(12)) is None
    assert (tmp_path / "parts" / "mage.json").exists()
    resumed = train(settings, tmp_path / "parts", silent)
    assert resumed == whole
    models = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    for name, value in models[0].items():
        assert np.array_equal(value, models[1][name]), name
