"""An inherited option is read, or refused with the reason."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_config import GRPOConfig

from tests.trainer.test_cli import error_line
from tests.trainer.test_loss import step, trajectory
from tests.trainer.tiny_runs import make_config, make_trainer, save_model
from trainer import trl_compat
from trainer.backends import cached_generator
from trainer.batch import build_rows, collate
from trainer.inherited import NOT_READ
from trainer.loss import LossTerms, Scores, policy_loss
from trainer.metrics import update_metrics

CHANGED: dict[str, Any] = {
    "scale_rewards": "none",
    "num_train_epochs": 2,
    "reward_weights": [1.0],
    "shuffle_dataset": False,
}


@pytest.mark.parametrize("name", sorted(NOT_READ))
def test_what_is_not_read_is_refused(name: str, tmp_path: Path) -> None:
    found = {item.name: item.default for item in fields(GRPOConfig)}
    if name not in found:
        pytest.skip(f"the installed versions have no {name}")
    value = CHANGED.get(name, not found[name] if isinstance(found[name], bool) else 7)
    with pytest.raises(ValueError, match=f"^{name}=.* is not read: .*; leave it out"):
        make_config(tmp_path, **{name: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--load_in_4bit", "true"), "load_in_4bit freezes the weights, so that an adapter alone can be trained"),
        (("--lora_r", "4"), "lora_r is read with --use_peft true alone"),
        (("--bnb_4bit_quant_type", "fp4"), "bnb_4bit_quant_type is read with --load_in_4bit true alone"),
    ],
)
def test_what_a_model_is_not_given_is_one_line(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in error_line(capsys, ("--preset", "mage-kuhn", "--model", "tiny", "--use_cpu", "true", *options))


def test_cached_needs_whole_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path)
    assert cached_generator(trainer).model is trainer.model
    monkeypatch.setattr(trainer, "is_fsdp_enabled", True)
    with pytest.raises(
        ValueError, match='backend="cached" forwards the weights that this process holds, .* use backend="trl"'
    ):
        cached_generator(trainer)


def test_no_rank_asks_a_server_before_it_has_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path)
    told: list[str] = []

    class Engine:
        enable_sleep_mode = False

        def sync_weights(self) -> None:
            told.append("pushed")

    monkeypatch.setattr(trainer, "use_vllm", True)
    monkeypatch.setattr(trainer, "vllm_generation", Engine(), raising=False)
    monkeypatch.setattr(trainer.accelerator, "wait_for_everyone", lambda: told.append("all wait"))
    for mode, expected in (("server", ["pushed", "all wait", "asked"]), ("colocate", ["pushed", "asked"])):
        monkeypatch.setattr(trainer, "vllm_mode", mode)
        with trl_compat.generation_session(trainer):
            told.append("asked")
        assert told == expected
        told.clear()


def test_how_far_the_sampler_is_from_the_model() -> None:
    """Three tokens with old - sampling of log 4, -log 2 and 0; ratios of 4, 1/2 and 1, truncated at 3."""
    old = torch.log(torch.tensor([0.8, 0.25, 0.5]))
    sampled = torch.log(torch.tensor([0.2, 0.5, 0.5])).tolist()
    steps = [step([1, 2], [3, 4, 5], logprobs=tuple(sampled))]
    batch = collate(build_rows([trajectory(steps)], [[1.0]]), pad_id=0)
    _, sums = policy_loss(Scores(old, torch.zeros(3)), batch, LossTerms(correct_sampling=True, correction_max=3.0))
    totals = {key: float(value) for key, value in sums.items()} | {"padded": 5.0, "useful": 5.0}
    told = update_metrics(totals, 3, 3, 0.0, skipped=False)
    log2 = float(torch.log(torch.tensor(2.0)))
    assert told["sampling/log_abs"] == pytest.approx(log2)
    assert told["sampling/k3"] == pytest.approx((5.5 - log2 - 3) / 3)
    assert told["sampling/largest"] == pytest.approx(4.0)
    assert told["sampling/truncated"] == pytest.approx(1 / 3)
    assert told["sampling/correction"] == pytest.approx(5.5 / 3)
