"""NaN and infinity in rewards, returns, losses and gradients: typed, counted, masked, never in the weights."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from safetensors.torch import load_file

from mage_envs.core import HandResult
from mage_envs.settings import outcome_reward
from mage_envs.trainer import MAGETrainer
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.local_model import Sampling
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages, mask_non_finite
from mage_envs.trainer.method.batch import build_rows
from mage_envs.trainer.method.loss import policy_loss
from mage_envs.trainer.runs.run_folder import checkpoints
from mage_envs.trainer.trl import mage_trainer, updating
from mage_envs.wrappers.rollout.generation_client import RunStopped
from tests.interruptions import run_in_fork
from tests.trainer.meta_episodes import LOSS, WIN, trajectory
from tests.trainer.runs.test_interruptions import run_ranks
from tests.trainer.tiny_runs import POOL, make_cached_generator, make_config, make_env, make_trainer


@pytest.mark.parametrize("advantage", ["gigpo", "grpo", "rloo", "member_mean"])
@pytest.mark.parametrize("norm", ["mean", "mean_std"])
@pytest.mark.parametrize("bad", [nan, inf, -inf, 1e200])
def test_a_reward_that_is_not_finite_counts_nowhere(advantage: str, norm: str, bad: float) -> None:
    config = CreditConfig(advantage=advantage, advantage_norm=norm)
    sound = [trajectory([WIN, LOSS], member=0), trajectory([LOSS, LOSS], member=1)]
    with_bad = [*sound, trajectory([bad, LOSS], member=2)]
    weights, metrics = compute_advantages(with_bad, config)
    assert weights[:2] == compute_advantages(sound, config)[0]
    assert weights[2] == [0.0] * len(with_bad[2].steps)
    kind = "return" if bad == 1e200 else "reward"
    marked = mask_non_finite(with_bad, config)
    assert [t.failure for t in marked[:2]] == [None, None]
    assert str(marked[2].failure).startswith(f"{kind}: the {kind} of ")
    assert [failure.kind for failure in marked[2].failures] == [kind]
    assert "advantages/not_finite" not in metrics


def test_a_penalty_and_a_value_are_looked_at_too() -> None:
    fined = trajectory([WIN], penalties={(0, "play", 1): nan})
    (marked,) = mask_non_finite([fined], CreditConfig())
    assert marked.failure == "reward: the penalty of turn 1 in episode 0 is nan"
    valued = replace(fined, steps=(), episodes=(fined.episodes[0]._replace(value=inf),))
    (marked,) = mask_non_finite([valued], CreditConfig())
    assert marked.failure == "reward: the value of episode 0 is inf"


def test_a_games_nan_is_not_a_draw() -> None:
    hands = [HandResult(value, 0, False) for value in (1.0, nan)]
    assert isnan(outcome_reward(hands, 2))
    assert outcome_reward(hands[:1], 1) == 10.0


class SometimesNaN(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose reward function divides by zero in every tenth episode, for any actions."""

    num_ended = 0
    broken = 0

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if info.get("episode_end"):
            SometimesNaN.num_ended += 1
            if SometimesNaN.num_ended % 10 == 0:
                SometimesNaN.broken += 1
                info = info | {"episode_return": (nan, inf)[SometimesNaN.broken % 2]}
        return observation, reward, terminated, truncated, info


def test_a_reward_function_with_nan_costs_its_meta_episodes_alone(model_path: str, tmp_path: Path) -> None:
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(SometimesNaN, "num_ended", 0)
    monkeypatch.setattr(SometimesNaN, "broken", 0)
    config = make_config(tmp_path, max_rollouts=4, save_strategy="steps", save_steps=2, failure_threshold=0.9)
    trainer = MAGETrainer(model_path, config, lambda: SometimesNaN(make_env()), POOL, generator=make_cached_generator)
    trainer.train()
    rows = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert SometimesNaN.broken > 3
    assert [row["kind"] for row in rows] == ["reward"] * SometimesNaN.broken
    logs = [log for log in trainer.state.log_history if "rollout" in log]
    assert sum(log.get("failures/reward", 0) for log in logs) == SometimesNaN.broken
    assert all(log["updates/skipped"] == 0 for log in logs)
    for folder in checkpoints(tmp_path):
        assert all(bool(weight.isfinite().all()) for weight in load_file(folder / "model.safetensors").values())
    monkeypatch.undo()


def breaking(monkeypatch: pytest.MonkeyPatch, updates: set[int], rank: int = 0, gradient: bool = False) -> None:
    """Makes the loss of some updates NaN, or its gradient infinite, on one rank."""

    def loss(trainer_rank: int, counter: list[int], scores: Any, batch: Any, terms: Any) -> Any:
        loss_value, sums = policy_loss(scores, batch, terms)
        if counter[0] in updates and trainer_rank == rank:
            loss_value = loss_value + scores.logps.sum() * (1e38 if gradient else nan) * (1e3 if gradient else 1)
        return loss_value, sums

    begin = updating.PolicyUpdates.backward

    def backward(self: Any, model: Any, update: Any) -> Any:
        counter = [self._trainer.state.global_step]
        rank_loss = partial(loss, self._trainer.accelerator.process_index, counter)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(updating, "policy_loss", rank_loss)
            return begin(self, model, update)

    monkeypatch.setattr(updating.PolicyUpdates, "backward", backward)


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_no_step_on_a_loss_or_gradient_that_is_not_finite(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradient: bool, clip: float
) -> None:
    weights_seen: list[dict[str, torch.Tensor]] = []
    breaking(monkeypatch, {1, 3}, gradient=gradient)
    trainer = make_trainer(model_path, tmp_path, max_grad_norm=clip, weight_decay=0.1)
    end = trainer.callback_handler.on_step_end

    def on_step_end(*args: Any, **kwargs: Any) -> Any:
        weights_seen.append(weights(trainer.model))
        return end(*args, **kwargs)

    monkeypatch.setattr(trainer.callback_handler, "on_step_end", on_step_end)
    trainer.train()
    same = [all(torch.equal(a[name], b[name]) for name in a) for a, b in pairwise(weights_seen)]
    assert same == [True, False, True]  # updates 1 and 3 of 0 to 3
    assert trainer.skipped.count == 2
    logs = [log for log in trainer.state.log_history if "updates/skipped" in log]
    assert [log["updates/skipped"] for log in logs] == [0, 1, 0, 1]
    assert all(value == value and abs(value) < inf for log in logs for value in log.values())


def test_a_run_stops_after_some_in_a_row_and_says_where_it_began(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch, {1, *range(3, 10)})
    trainer = make_trainer(model_path, tmp_path, max_rollouts=5, max_skipped_updates=3)
    with pytest.raises(RunStopped, match=r"3 updates in a row were skipped, the first at update 3 \(rollout 1\): "):
        trainer.train()
    assert trainer.state.global_step == 5
    assert all(bool(weight.isfinite().all()) for weight in trainer.model.parameters())


def test_a_resumed_run_continues_to_count_them(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch, set(range(3, 10)))
    changes: dict[str, Any] = {"max_skipped_updates": 3, "save_strategy": "steps", "save_steps": 4}
    make_trainer(model_path, tmp_path, max_rollouts=2, **changes).train()
    resumed = make_trainer(model_path, tmp_path, max_rollouts=5, **changes)
    with pytest.raises(RunStopped, match=r"3 updates in a row were skipped, the first at update 3 \(rollout 1\): "):
        resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 5


class CutReplies(CachedGenerator):
    """A model whose replies all reach the token limit."""

    def generate(self, prompts: Any) -> Any:
        return [replace(completion, truncated=True) for completion in super().generate(prompts)]


def make_cut_replies(trainer: MAGETrainer) -> CutReplies:
    tokens = ChatTokenizer(trainer.processing_class)  # type: ignore[arg-type]
    return CutReplies(trainer.model, tokens, Sampling(1))  # type: ignore[arg-type]


def test_a_rollout_of_cut_replies_is_skipped_and_counted(model_path: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"max_rollouts": 5, "max_skipped_updates": 2, "weight_decay": 0.1}
    trainer = make_trainer(model_path, tmp_path, make_cut_replies, mask_truncated=True, **changes)
    before = weights(trainer.model)
    with pytest.raises(RunStopped, match=r"2 updates in a row .* leaves them out \(raise max_completion_length\)"):
        trainer.train()
    assert trainer.skipped.count == 2
    assert trainer.progress.rollouts == 2
    assert all(torch.equal(before[name], weight) for name, weight in weights(trainer.model).items())


def test_the_next_rollout_trains_after_an_empty_one(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = count()

    def rows_of(*args: Any, **kwargs: Any) -> Any:
        return [] if next(counter) == 1 else build_rows(*args, **kwargs)

    monkeypatch.setattr(mage_trainer, "build_rows", rows_of)
    trainer = make_trainer(model_path, tmp_path, max_rollouts=3, mask_truncated=True)
    trainer.train()
    logs = [log["updates/skipped"] for log in trainer.state.log_history if "updates/skipped" in log]
    # Two updates a rollout; the empty one has a single update.
    assert logs == [0, 0, 1, 0, 0]
    assert trainer.progress.rollouts == 3


def test_a_rollout_without_replies_ends_the_run_if_none_was_cut(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mage_trainer, "build_rows", lambda *args, **kwargs: [])
    with pytest.raises(ValueError, match="Rollout 0 has no reply to train on. Raise max_prompt_length"):
        make_trainer(model_path, tmp_path).train()


def run_rank(model: str, folder: Path, ranks: Any) -> None:
    from tests.trainer.runs.test_interruptions import as_rank

    as_rank(ranks)
    trainer = make_trainer(model, folder, max_rollouts=2)
    trainer.train()
    assert trainer.skipped.count == 1, trainer.skipped.count
    state = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    assert bool(state.isfinite().all())
    (folder / f"rank-{ranks[0]}.txt").write_text(str(state.double().sum().item()))


def test_two_processes_skip_together(model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second rank's loss alone is NaN."""
    tmp_path.joinpath("run").mkdir()
    breaking(monkeypatch, {2}, rank=1)
    assert run_ranks(partial(run_rank, model_path, tmp_path / "run")) == [0, 0]
    first_sum, second_sum = ((tmp_path / "run" / f"rank-{rank}.txt").read_text() for rank in (0, 1))
    assert first_sum == second_sum


def test_the_exit_status_says_that_a_run_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.trainer.cli.test_cli import SMALL, run

    breaking(monkeypatch, set(range(100)))
    arguments = ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path), "--max_skipped_updates", "2")
    assert run_in_fork(lambda: os._exit(run(*arguments))) == 1
    assert not (tmp_path / "model.safetensors").exists()
