"""`examples/mini_mage.py` collects, credits and differentiates as the package does, and learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples import mini_mage
from examples.mini_mage import ENTROPY_COEF, MEMBERS, PlayedMetaEpisode
from mage_envs.core import Task
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer import (
    CreditConfig,
    MAGETrainer,
    RolloutSpec,
    Trajectory,
    collect,
    compute_advantages,
    step_returns,
)
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.method.batch import build_rows, rank_share, reuse_sampling
from tests.trainer.tiny_runs import make_trainer

GROUPS = 6
SEEDS = [100 + i // MEMBERS for i in range(GROUPS * MEMBERS)]


def sample_rollout(memory: str, seed: int = 0) -> list[PlayedMetaEpisode]:
    """A rollout of six groups, by random weights."""
    envs = [mini_mage.make_env(memory) for _ in SEEDS]
    return mini_mage.collect(*mini_mage.make_model(seed), envs, SEEDS, torch.Generator().manual_seed(seed))


class SameReplies:
    """A generator that answers each call of the package's `collect` with the tokens of the same call of the example."""

    def __init__(self, rollout: Sequence[PlayedMetaEpisode]) -> None:
        self.rollout, self.tokens = rollout, ChatTokenizer(mini_mage.make_model(0)[1])

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt: Prompt) -> Completion:
        seed, member, number, _ = prompt.seed
        meta_episode = self.rollout[SEEDS.index(seed) + member]
        call = meta_episode.calls[number]
        ids = tuple(meta_episode.ids[call.start : call.start + len(call.logprobs)])
        return Completion(
            self.tokens.decode(ids),
            prompt_ids=self.tokens.encode(prompt),
            ids=ids,
            logprobs=tuple(call.logprobs),
            legal_ids=tuple(filter(None, [self.tokens.single_ids(prompt.legal_actions)])),
        )


def as_trajectories(rollout: Sequence[PlayedMetaEpisode], memory: str) -> list[Trajectory]:
    """The same meta-episodes, played by the package's `collect`."""
    task = [Task("mage/KuhnPoker-Meta-v0", seed=seed) for seed in SEEDS]
    specs = [RolloutSpec(task[i], group=i // MEMBERS, member=i % MEMBERS) for i in range(len(SEEDS))]
    collected = collect([mini_mage.make_env(memory) for _ in range(4)], SameReplies(rollout), specs)
    assert all(trajectory.failure is None for trajectory in collected)
    return collected


def advantages_of(rollout: Sequence[PlayedMetaEpisode]) -> list[list[float]]:
    groups = [rollout[start : start + MEMBERS] for start in range(0, len(rollout), MEMBERS)]
    return [member for group in groups for member in mini_mage.group_advantages(group)]


@pytest.fixture(scope="module")
def rollout() -> list[PlayedMetaEpisode]:
    return sample_rollout("both")


@pytest.fixture(scope="module")
def trajectories(rollout: list[PlayedMetaEpisode]) -> list[Trajectory]:
    return as_trajectories(rollout, "both")


def test_it_collects_what_the_package_collects(
    rollout: list[PlayedMetaEpisode], trajectories: list[Trajectory]
) -> None:
    for meta_episode, trajectory in zip(rollout, trajectories, strict=True):
        assert meta_episode.rewards == [episode.reward for episode in trajectory.episodes]
        assert meta_episode.chips == [episode.value for episode in trajectory.episodes]
        for call, step in zip(meta_episode.calls, trajectory.steps, strict=True):
            assert tuple(meta_episode.ids[: call.start]) == step.prompt_ids
            assert (call.episode, call.phase, call.anchor) == (step.episode, step.phase, step.anchor)
            assert (tuple(filter(None, [call.legal])), call.penalty) == (step.legal_ids, step.penalty)
    phases = [call.phase for meta_episode in rollout for call in meta_episode.calls]
    assert phases.count("reflect") == 2 * len(rollout)
    assert any(call.penalty for meta_episode in rollout for call in meta_episode.calls), "no remark was empty"


def test_the_recorded_log_probabilities_are_those_of_the_whole_sequence(rollout: list[PlayedMetaEpisode]) -> None:
    model, _ = mini_mage.make_model(0)
    for meta_episode in rollout[:3]:
        logits = model(input_ids=torch.tensor([meta_episode.ids])).logits[0]
        for call in meta_episode.calls:
            at = torch.arange(call.start, call.start + len(call.logprobs))
            log_probs = mini_mage.word_logprobs(logits[at - 1], [call.legal] * len(at))
            sampled_log_probs = log_probs.gather(1, torch.tensor(meta_episode.ids)[at][:, None])[:, 0]
            torch.testing.assert_close(sampled_log_probs, torch.tensor(call.logprobs), rtol=1e-4, atol=1e-5)
            assert not call.legal or log_probs[0, list(call.legal)].exp().sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("memory", ["both", "history"])
def test_its_advantages_equal_the_packages(memory: str) -> None:
    """To the last bit, in groups with and without variance."""
    rollout = sample_rollout(memory, seed=1)
    expected, metrics = compute_advantages(as_trajectories(rollout, memory), CreditConfig())
    advantages = advantages_of(rollout)
    assert advantages == expected
    assert metrics["groups/count"] == GROUPS
    assert sum(value != 0 for member in advantages for value in member) > 100


@pytest.mark.parametrize("seed", range(5))
def test_its_advantages_equal_the_packages_with_any_rewards_and_penalties(
    rollout: list[PlayedMetaEpisode], trajectories: list[Trajectory], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    changed, same = [], []
    for meta_episode, trajectory in zip(rollout, trajectories, strict=True):
        rewards = rng.normal(size=len(meta_episode.rewards)).tolist()
        penalties = rng.choice([0.0, 0.5, 0.3], size=len(meta_episode.calls)).tolist()
        calls = [replace(call, penalty=p) for call, p in zip(meta_episode.calls, penalties, strict=True)]
        steps = tuple(step._replace(penalty=p) for step, p in zip(trajectory.steps, penalties, strict=True))
        results = tuple(episode._replace(reward=r) for episode, r in zip(trajectory.episodes, rewards, strict=True))
        changed.append(replace(meta_episode, calls=calls, rewards=rewards))
        same.append(replace(trajectory, steps=steps, episodes=results))
        values = mini_mage.episode_values(changed[-1])
        assert mini_mage.call_returns(changed[-1], values, penalties) == step_returns(same[-1])
    assert advantages_of(changed) == compute_advantages(same, CreditConfig())[0]


def perturb(model: torch.nn.Module) -> None:
    """Change the weights as several updates would, the same for equal models."""
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=noise)


@pytest.mark.parametrize("moved", [False, True])
def test_its_gradient_equals_the_trainers(
    rollout: list[PlayedMetaEpisode], trajectories: list[Trajectory], tmp_path: Path, moved: bool
) -> None:
    """At the sampling weights, and at other ones, so that the ratios are clipped from both sides."""
    model, _ = mini_mage.make_model(0)
    trainer = same_loss(tmp_path)
    # Weights in float64, so that the difference is far below the tolerance. The trainer scores in float32 all the same.
    model.double()
    trainer.model.double()
    if moved:
        perturb(model)
        perturb(trainer.model)
    advantages = advantages_of(rollout)
    model.train()
    loss = mini_mage.policy_loss(model, rollout, advantages)
    loss.backward()
    rows = build_rows(trajectories, advantages)
    assert len(rows) == len(rollout), "a meta-episode is one row"
    reuse_sampling(rows)
    trainer.model.train()
    trainer.model.zero_grad()
    expected = trainer.updates.backward(trainer.model, rank_share(rows, 0, 1, 2048, trainer.updates.pad_id))
    metrics = trainer.updates._recorded.metrics
    clipped = [metrics[f"clip_ratio/{side}"] for side in ("low", "high")]
    assert min(clipped) > 0.05 if moved else max(clipped) == 0
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    ours, theirs = (dict(each_model.named_parameters()) for each_model in (model, trainer.model))
    scale = max(float(weight.grad.abs().max()) for weight in theirs.values())
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert float((weight.grad - theirs[name].grad).abs().max()) < 1e-6 * scale, name


def same_loss(folder: Path) -> MAGETrainer:
    """A trainer with the model and the loss of the example."""
    model, tokenizer = mini_mage.make_model(0)
    terms: dict[str, Any] = {
        "epsilon": mini_mage.CLIP,
        "delta": mini_mage.DUAL_CLIP,
        "entropy_coef": ENTROPY_COEF,
        "beta": 0.0,
        "max_completion_length": mini_mage.REMARK_WORDS,
        "backend": "cached",
        "constrained": True,
    }
    # The model itself, not a saved one: a loaded model has a padding id, whose embedding gets no gradient as an input.
    return make_trainer(model, folder, None, processing_class=tokenizer, **terms)


def test_the_command_prints_the_chips_of_each_episode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mini_mage, "GROUPS", 2)
    mini_mage.main(["--rollouts", "3", "--every", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0].split() for line in lines] == [["rollouts", number] for number in "023"]
    assert all(len(line.rpartition("episode")[2].split()) == 3 for line in lines)


@pytest.mark.more
def test_it_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights lose some .3 chips an episode. The best play without memory earns .125."""
    monkeypatch.setattr(mini_mage, "GROUPS", 16)
    first_mean, last_mean = np.mean(mini_mage.train(20, memory="history", eval_interval=20), axis=1)
    assert first_mean < -0.2 < 0.0 < last_mean
