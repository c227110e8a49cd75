"""An inherited option is read, or refused with the reason."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_config import GRPOConfig

from mage_envs.core import Task
from mage_envs.trainer import MAGEConfig, MAGETrainer
from mage_envs.trainer.config.mage_config import NOT_READ
from mage_envs.trainer.method.batch import build_rows, collate
from mage_envs.trainer.method.loss import LossTerms, Scores, policy_loss
from mage_envs.trainer.method.metrics import update_metrics
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.backend_registry import make_cached_generator
from tests.trainer.cli.test_cli import error_line
from tests.trainer.method.test_loss import step, trajectory
from tests.trainer.tiny_runs import POOL, make_config, make_env, make_trainer, save_model

CHANGED: dict[str, Any] = {
    "scale_rewards": "none",
    "num_train_epochs": 2,
    "reward_weights": [1.0],
    "shuffle_dataset": False,
}
TAKEN_AT_START = {
    "cache_implementation",
    "cast_lm_head_to_fp32",
    "disable_dropout",
    "enable_jit_checkpoint",
    "fsdp",
    "full_determinism",
    "model_init_kwargs",
    "neftune_noise_alpha",
    "skip_memory_metrics",
    "sync_ref_model",
    "trust_remote_code",
    "use_cache",
    "vllm_gpu_memory_utilization",
    "vllm_mode",
    "vllm_tensor_parallel_size",
}
"""Read by TRL's `__init__` alone, which acts on them: the model, its generation config, callbacks, the engine."""
ON_CONDITION = {
    "vllm": "enable_sleep_mode group_port importance_sampling_cap max_model_length model_impl",
    "vllm_server": "base_url host port timeout",
    "hub": "always_push private_repo revision strategy token",
    "trackio": "bucket_id space_id static_space_id",
    "ref_model": "mixup_alpha sync_steps",
    "ddp": "backend timeout",
    "": "bf16 deepspeed fp16 fsdp_config greater_is_better ignore_data_skip liger_kernel_config local_rank project "
    "optim_target_modules restore_callback_states_from_checkpoint run_name tf32 torch_compile use_cpu",
}
"""Read before the trainer is made, or if an engine, the hub, a logger, several processes or a resume need it."""
OFFERED_OTHERWISE = {
    "generation_batch_size",
    "importance_sampling_level",
    "log_completions",
    "loss_type",
    "mask_truncated_completions",
    "min_p",
    "num_generations_eval",
    "num_iterations",
    "off_policy_mask_threshold",
    "repetition_penalty",
    "router_aux_loss_coef",
    "steps_per_generation",
    "top_entropy_quantile",
    "top_k",
    "top_p",
    "use_adaptive_entropy",
    "use_transformers_continuous_batching",
    "vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode",
}
"""Refused with another value than one, or read by `loss_terms` once there is something to correct."""


def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Return the readers of each attribute of the config while a run trains, evaluates and writes: function names."""
    readers_by_name: dict[str, set[str]] = {}
    on: list[object] = []

    def read(config: Any, name: str) -> Any:
        if on and config is on[0]:
            readers_by_name.setdefault(name, set()).add(sys._getframe(1).f_code.co_name)
        return object.__getattribute__(config, name)

    changes: dict[str, Any] = {"save_strategy": "steps", "eval_strategy": "steps", "eval_steps": 1, "beta": 0.1}
    monkeypatch.setattr(MAGEConfig, "__getattribute__", read, raising=False)
    config = make_config(tmp_path / "run", max_rollouts=1, groups_per_rollout=1, **changes)
    on.append(config)
    tasks = [Task("mage/KuhnPoker-Meta-v0", "kuhn/soft-station", None, 5)]
    trainer = MAGETrainer(save_model(tmp_path / "model"), config, make_env, POOL, eval_tasks=tasks)
    trainer.train()
    trainer.write_model(tmp_path / "run")
    on.clear()
    return readers_by_name


def test_each_option_is_read_where_it_acts_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer TRL or transformers brings options that are in none of these tables."""
    names = {item.name for item in fields(GRPOConfig)}
    readers_by_name = readers(tmp_path, monkeypatch)
    copied = {name for name in names & set(readers_by_name) if readers_by_name[name] <= {"__init__", "to_dict"}}
    conditional = {f"{of}_{name}".lstrip("_") for of, listed in ON_CONDITION.items() for name in listed.split()}
    assert copied - set(NOT_READ) - OFFERED_OTHERWISE == TAKEN_AT_START & names
    assert names - set(readers_by_name) - set(NOT_READ) - OFFERED_OTHERWISE == conditional & names


@pytest.mark.parametrize("name", sorted(NOT_READ))
def test_options_that_are_not_read_are_refused(name: str, tmp_path: Path) -> None:
    trl_defaults = {item.name: item.default for item in fields(GRPOConfig)}
    if name not in trl_defaults:
        pytest.skip(f"the installed versions have no {name}")
    value = CHANGED.get(name, not trl_defaults[name] if isinstance(trl_defaults[name], bool) else 7)
    with pytest.raises(ValueError, match=rf"^{name}=.* is not read: .*\. Remove it"):
        make_config(tmp_path, **{name: value})


@pytest.mark.parametrize(
    "elsewhere", [{"backend": "cached"}, {"backend": "vllm_stream", "use_vllm": True}, {"use_vllm": True}]
)
def test_a_cache_of_transformers_is_refused_where_transformers_does_not_sample(
    elsewhere: dict[str, Any], tmp_path: Path
) -> None:
    assert make_config(tmp_path, cache_implementation="static").cache_implementation == "static"
    with pytest.raises(ValueError, match="^cache_implementation='static' applies to transformers' own sampling"):
        make_config(tmp_path, cache_implementation="static", **elsewhere)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--load_in_4bit", "true"), "load_in_4bit freezes the weights, so only an adapter can be trained"),
        (("--lora_r", "4"), "lora_r requires --use_peft true"),
        (("--bnb_4bit_quant_type", "fp4"), "bnb_4bit_quant_type requires --load_in_4bit true"),
    ],
)
def test_what_a_model_is_not_given_is_one_line(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in error_line(capsys, ("--preset", "mage-kuhn", "--model", "tiny", "--use_cpu", "true", *options))


def test_cached_needs_whole_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path)
    assert make_cached_generator(trainer).model is trainer.model
    monkeypatch.setattr(trainer, "is_fsdp_enabled", True)
    with pytest.raises(
        ValueError, match='backend="cached" needs the whole model in each process, .* Use backend="trl"'
    ):
        make_cached_generator(trainer)


def test_no_rank_asks_a_server_while_it_gets_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path)
    events: list[str] = []

    class Engine:
        enable_sleep_mode = False

        def sync_weights(self) -> None:
            events.append("pushed")

    monkeypatch.setattr(trainer, "use_vllm", True)
    monkeypatch.setattr(trainer, "vllm_generation", Engine(), raising=False)
    monkeypatch.setattr(trainer.accelerator, "wait_for_everyone", lambda: events.append("all wait"))
    waiting = ["all wait", "pushed", "all wait", "asked"]
    for mode, expected in (("server", waiting), ("colocate", ["pushed", "asked"])):
        monkeypatch.setattr(trainer, "vllm_mode", mode)
        with trl_compat.generation_session(trainer):
            events.append("asked")
        assert events == expected
        events.clear()


def test_how_far_the_sampler_is_from_the_model() -> None:
    """Three tokens with old - sampling of log 4, -log 2 and 0; ratios of 4, 1/2 and 1, truncated at 3."""
    old = torch.log(torch.tensor([0.8, 0.25, 0.5]))
    sampled = torch.log(torch.tensor([0.2, 0.5, 0.5])).tolist()
    steps = [step([1, 2], [3, 4, 5], logprobs=tuple(sampled))]
    batch = collate(build_rows([trajectory(steps)], [[1.0]]), pad_id=0)
    _, sums = policy_loss(Scores(old, torch.zeros(3)), batch, LossTerms(correct_sampling=True, correction_max=3.0))
    totals = {key: float(value) for key, value in sums.items()} | {"padded": 5.0, "useful": 5.0}
    metrics = update_metrics(totals, 3, 3, 0.0, skipped=False)
    log2 = float(torch.log(torch.tensor(2.0)))
    assert metrics["sampling/log_abs"] == pytest.approx(log2)
    assert metrics["sampling/k3"] == pytest.approx((5.5 - log2 - 3) / 3)
    assert metrics["sampling/largest"] == pytest.approx(4.0)
    assert metrics["sampling/truncated"] == pytest.approx(1 / 3)
    assert metrics["sampling/correction"] == pytest.approx(5.5 / 3)
