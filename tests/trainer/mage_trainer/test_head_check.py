"""TRL's fused LM head is used only if it scores a model as its own logits do."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GraniteConfig
from trl.trainer.utils import add_fused_lm_head

from mage_envs.trainer.trl.head_check import heads_agree
from tests.trainer.mage_trainer.test_dropout import CONFIGS, SIZES
from tests.trainer.tiny_runs import make_trainer

SCALED: dict[str, dict[str, Any]] = {
    "granite": {**SIZES, "logits_scaling": 3.0},
    "cohere": {**SIZES, "logit_scale": 0.25},
    "gemma2": {**SIZES, "head_dim": 8, "final_logit_softcapping": 2.0},
}
NOT_A_PROJECTION = {"bert": {**SIZES, "is_decoder": True}}
"""A model whose head transforms the hidden states before it projects them."""


def agreement(kind: str, config: dict[str, Any], dtype: torch.dtype = torch.float32) -> bool:
    """Return whether the two heads agree for a model of this kind with random weights."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config), dtype=dtype)
    model.eval()  # without dropout
    add_fused_lm_head(model)
    ids = torch.randint(1, 32, (2, 12))

    def fused() -> torch.Tensor:
        return model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.flatten()

    def plain() -> torch.Tensor:
        logps = model(input_ids=ids).logits[:, :-1].float().log_softmax(-1)
        return logps.gather(-1, ids[:, 1:, None]).flatten()

    agrees = heads_agree(model, fused, plain)
    assert all(weight.grad is None for weight in model.parameters())
    return agrees


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [*CONFIGS, *SCALED])
def test_the_heads_of_these_models_agree(kind: str, dtype: torch.dtype) -> None:
    assert agreement(kind, SCALED.get(kind) or CONFIGS[kind], dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_scale_of_another_name_is_seen(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL reads the scale by its name in the config. Here it finds none, and the model scales by 1/3."""
    config = {**SIZES, "logits_scaling": 3.0}
    original = GraniteConfig.__getattribute__

    def hide(self: Any, name: str) -> Any:
        is_trl = name == "logits_scaling" and "trl" in (inspect.stack()[1].filename or "")
        return None if is_trl else original(self, name)

    monkeypatch.setattr(GraniteConfig, "__getattribute__", hide)
    assert not agreement("granite", config, dtype)


@pytest.mark.parametrize("kind", NOT_A_PROJECTION)
def test_a_head_that_is_more_than_a_projection_is_seen(kind: str) -> None:
    assert not agreement(kind, NOT_A_PROJECTION[kind])


class LoudHead(torch.nn.Linear):
    """A head that TRL takes for a projection, as those of models with a code of their own."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return 3 * super().forward(states)


def test_a_run_scores_by_the_logits_if_the_heads_differ(model_path: str, tmp_path: Any, caplog: Any) -> None:
    """The scores of a run are those that its replies were sampled with."""
    model = AutoModelForCausalLM.from_pretrained(model_path)
    head = LoudHead(model.config.hidden_size, model.config.vocab_size, bias=False)
    head.weight = model.get_input_embeddings().weight
    model.lm_head = head
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    trainer = make_trainer(model, tmp_path, processing_class=tokenizer, max_rollouts=1)
    rows: list[Any] = []
    forward = trainer.updates.forward

    def watch(model: Any, batch: Any) -> Any:
        scores = forward(model, batch)
        logits = model(input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions).logits
        logps = logits[batch.rows, batch.columns - 1].float().log_softmax(-1)
        rows.append(
            (scores.logps.detach(), logps.gather(1, batch.ids[batch.rows, batch.columns][:, None])[:, 0].detach())
        )
        return scores

    trainer.updates.forward = watch
    trainer.train()
    assert "scores this model otherwise than its own logits do, so the logits are used" in caplog.text
    assert rows
    for scored, expected in rows:
        torch.testing.assert_close(scored, expected)


def test_an_ordinary_run_has_no_warning(model_path: str, tmp_path: Any, caplog: Any) -> None:
    make_trainer(model_path, tmp_path, max_rollouts=1).train()
    assert "so the logits are used" not in caplog.text
