"""A user's own advantage, returns, policy loss, KL estimator and reward: registered, or named as `module:function`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mage_envs.core import HandResult
from mage_envs.loading import imports
from mage_envs.loading.imports import UntrustedName, names_from
from mage_envs.settings import as_reward, reward_name
from mage_envs.trainer import MAGETrainer, Trajectory, register_advantage, register_returns
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.method.advantages import EPSILON, CreditConfig, compute_advantages
from mage_envs.trainer.method.components import ADVANTAGES, KL_ESTIMATORS, POLICY_LOSSES, RETURNS, Registry
from mage_envs.trainer.method.loss import LossTerms
from mage_envs.trainer.method.returns import step_returns
from tests.programs import train as main
from tests.trainer.meta_episodes import trajectory
from tests.trainer.tiny_runs import flags, make_cached_generator, make_config, save_model

MODULE = __name__
REGISTRIES = {"advantage": ADVANTAGES, "returns": RETURNS, "policy": POLICY_LOSSES, "kl_estimator": KL_ESTIMATORS}


@pytest.fixture(autouse=True)
def restore_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registrations of a test end with it."""
    monkeypatch.setattr(imports, "_IMPORTED", [])
    entries_before = {name: dict(registry._entries) for name, registry in REGISTRIES.items()}
    yield
    for name, registry in REGISTRIES.items():
        registry._entries = entries_before[name]


def own_advantage(group: Sequence[Trajectory], config: CreditConfig) -> list[list[float]]:
    return [[float(member.member + 1)] * len(member.steps) for member in group]


def own_returns(rewards: Sequence[float]) -> list[float]:
    return [2.0 * reward for reward in rewards]


def own_loss(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    return -logps * advantages


def own_returns_as_advantage(group: Sequence[Trajectory], config: CreditConfig) -> list[list[float]]:
    return [[member.episodes[0].reward for _ in member.steps] for member in group]


def own_kl(gap: torch.Tensor) -> torch.Tensor:
    return gap.abs()


def own_reward(hands: Sequence[HandResult], planned: int) -> float:
    return 7.0 * len(hands)


def test_a_registered_advantage_and_returns() -> None:
    register_advantage("own")(own_advantage)
    register_returns("double", crosses_episodes=False)(own_returns)
    trajectories = [trajectory([1.0, 3.0], turns=1, reflections=False)]
    advantages, _ = compute_advantages(trajectories, CreditConfig(advantage="own", returns="double"))
    assert advantages == [[1.0, 1.0]]
    assert step_returns(trajectories[0], returns="double", gamma_step=1.0, gamma_episode=0.5) == [2.0, 6.0]
    assert step_returns(trajectories[0], returns=f"{MODULE}:own_returns", gamma_step=1.0, gamma_episode=0.5) == [
        5.0,
        6.0,
    ]
    assert step_returns(trajectories[0], returns="cumulative", gamma_step=1.0, gamma_episode=0.5) == [2.5, 3.0]


def test_a_registered_advantage_can_be_divided_by_the_deviation_of_its_opponent() -> None:
    """Two groups of an opponent share one deviation, as with `member_mean`; without the mark nothing is divided."""
    register_advantage("raw")(own_returns_as_advantage)
    register_advantage("per-opponent", per_opponent=True)(own_returns_as_advantage)
    rewards = {"a": (1.0, 3.0), "b": (10.0, 40.0)}
    played = [
        replace(trajectory([reward], turns=1, reflections=False), opponent=name, group=2 * (name == "b") + number)
        for name, pair in rewards.items()
        for number, reward in enumerate(pair)
    ]
    raw, divided = (
        compute_advantages(played, CreditConfig(advantage=name, advantage_norm="mean_std"))[0]
        for name in ("raw", "per-opponent")
    )
    assert [member[0] for member in raw] == [1.0, 3.0, 10.0, 40.0]
    deviations = {name: np.std(pair, ddof=1) + EPSILON for name, pair in rewards.items()}
    assert [member[0] for member in divided] == pytest.approx(
        [reward / deviations[name] for name, pair in rewards.items() for reward in pair]
    )


@pytest.mark.parametrize("option", REGISTRIES)
def test_names_are_checked_at_start(option: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{option}='nothing' is unknown; choose one of: .*or name your own function"):
        make_config(tmp_path, **{option: "nothing"})
    with pytest.raises(ImportError, match="no module 'no_such_module' was found"):
        make_config(tmp_path, **{option: "no_such_module:f"})
    with pytest.raises(ImportError, match="the module has no 'nothing'"):
        make_config(tmp_path, **{option: f"{MODULE}:nothing"})
    with pytest.raises(TypeError, match="must be a function that os defines"):
        make_config(tmp_path, **{option: "os:system"})
    with names_from("run.yaml"), pytest.raises(UntrustedName, match=r"^run.yaml needs the module 'json'"):
        make_config(tmp_path, **{option: "json:dumps"})


def test_one_list_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    for option, registry in REGISTRIES.items():
        assert registry.option == option
        assert all(registry.find(name) for name in registry)
        with pytest.raises(ValueError, match="already registered"):
            registry.register(next(iter(registry)), own_kl)
        with pytest.raises(ValueError, match="without a colon"):
            registry.register("a:b", own_kl)
    assert main(flags(advantage="nothing", model="tiny")) == 2
    assert (
        "advantage='nothing' is unknown; choose one of: gigpo, grpo, rloo, member_mean, exact"
        in capsys.readouterr().err
    )


def test_a_registry_takes_the_same_function_again() -> None:
    registry = Registry("x", {})
    registry.register("own", own_kl)
    registry.register("own", own_kl)
    assert registry.find("own") is own_kl


def test_a_reward_by_name_by_function_and_by_module() -> None:
    rewards = {"task": own_reward}
    assert as_reward("task", rewards, "Game") is own_reward
    assert as_reward(own_reward, {}, "Game") is own_reward
    assert as_reward(f"{MODULE}:own_reward", {}, "Game") is own_reward
    assert reward_name(own_reward) == f"{MODULE}:own_reward"
    with pytest.raises(ValueError, match="reward='x' is unknown in Game; choose one of: task, or name"):
        as_reward("x", rewards, "Game")
    with pytest.raises(ValueError, match="define it at the top level of a module"):
        reward_name(lambda hands, planned: 0.0)


def test_a_run_with_parts_of_ones_own(tmp_path: Path) -> None:
    """Every part is called in training; the saved model names the reward, and only a user may load it."""
    parts: dict[str, Any] = {
        "advantage": f"{MODULE}:own_advantage",
        "returns": f"{MODULE}:own_returns",
        "policy": f"{MODULE}:own_loss",
        "kl_estimator": f"{MODULE}:own_kl",
    }
    config = make_config(
        tmp_path / "run",
        **parts,
        beta=0.1,
        max_rollouts=1,
        num_episodes=2,
        prompt_style="words",
        context="conversation",
        memory="history",
        env_kwargs={"on_invalid": "forfeit"},
    )
    all_trajectories: list[Trajectory] = []
    trainer = MAGETrainer(
        save_model(tmp_path / "model"),
        config,
        env_id="mage/KuhnPoker-Meta-v0",
        reward=own_reward,
        generator=make_cached_generator,
        on_rollout_end=lambda _, run_trajectory: all_trajectories.extend(run_trajectory),
    )
    trainer.train()
    assert {episode.reward for run_trajectory in all_trajectories for episode in run_trajectory.episodes} == {7.0}
    trainer.save_model(str(tmp_path / "saved"))
    text = json.loads((tmp_path / "saved" / "mage.json").read_text())
    assert text["env_kwargs"]["reward"] == f"{MODULE}:own_reward"
    assert MODULE in text["imports"]
    imports._IMPORTED.clear()
    assert PlaySettings.load(tmp_path / "saved") == trainer.play


def test_an_environment_is_named_once(tmp_path: Path) -> None:
    from tests.trainer.tiny_runs import make_env

    with pytest.raises(ValueError, match="make_env makes the whole environment"):
        MAGETrainer("m", make_config(tmp_path), make_env, reward=own_reward)
