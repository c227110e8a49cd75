"""FSDP2 in two CPU processes: one process's weights, checkpoints that go on exactly, final models that are whole."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from mage_envs.files.manifest import verify_checkpoint
from mage_envs.trainer import MAGETrainer
from mage_envs.trainer.backends.weights import SHARDS, load_model
from tests.interruptions import forked
from tests.trainer.runs.test_interruptions import SHARDED, as_rank, run_ranks, sweep_ranks
from tests.trainer.sharding import STATE_DICTS, shard_on_cpu
from tests.trainer.tiny_runs import make_trainer, save_model, scripted

Weights = dict[str, torch.Tensor]
RUN: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 2,
    "learning_rate": 1e-2,
    "beta": 0.1,
    "adam_epsilon": 1e-3,  # Adam would divide the rounding of gradients near 0 by themselves
}


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def alone(model_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes."""
    folder = tmp_path_factory.mktemp("one")
    assert forked(partial(train, model_path, folder)) == 0
    return folder


def train(model: str, folder: Path, kind: str = "", ranks: Sequence[str] = ()) -> None:
    """Two rollouts; from the first one's checkpoint again; an adapter. Under FSDP also generation by all ranks."""
    as_rank(ranks)
    if ranks:
        shard_on_cpu(kind)
    trained = make_trainer(model, folder / "full", scripted, **RUN)
    trained.train()
    keep(trained, folder / "model")
    if trained.accelerator.is_main_process:
        shutil.rmtree(folder / "full" / "checkpoint-4")
    trained.accelerator.wait_for_everyone()
    resumed = make_trainer(model, folder / "full", scripted, **RUN)
    resumed.train(True)
    keep(resumed, folder / "resumed")
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = make_trainer(model, folder / "lora", scripted, peft_config=adapter, **(RUN | {"max_rollouts": 1}))
    adapted.train()
    keep(adapted, folder / "adapter")
    if ranks:
        assert {type(weight) for weight in trained.model.parameters()} == {DTensor}
        generated = make_trainer(model, folder / "generated", None, max_rollouts=1)
        generated.train()
        assert [log["failures"] for log in generated.state.log_history if "failures" in log] == [0.0]


def keep(trainer: MAGETrainer, folder: Path) -> None:
    """Writes the model as the end of a run does."""
    trainer.write_model(folder)


def distance(ours: Weights, theirs: Weights) -> float:
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs)


def whole(folder: Path) -> Weights:
    """The model in a folder as transformers loads it, which tells where a part is missing."""
    model, told = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    return dict(model.state_dict())


def check_that_two_equal_one(model_path: str, alone: Path, both: Path) -> None:
    """What two processes left in a folder is what one left in the other; their checkpoints load in one process."""
    start, one, two = whole(Path(model_path)), whole(alone / "model"), whole(both / "model")
    assert distance(start, one) > 1e-3  # four updates
    assert distance(one, two) < 1e-6
    assert distance(whole(both / "resumed"), two) == 0.0
    for checkpoint in ("checkpoint-2", "checkpoint-4"):
        assert verify_checkpoint(both / "full" / checkpoint) is None
    assert distance(dict(load_model(both / "full" / "checkpoint-4").state_dict()), two) == 0.0
    adapted, kept = (load_model(both / name).state_dict() for name in ("lora/checkpoint-2", "adapter"))
    assert adapted.keys() == kept.keys() != two.keys()
    assert distance(dict(adapted), dict(kept)) == 0.0
    adapters = [load_file(place / "adapter" / "adapter_model.safetensors") for place in (alone, both)]
    assert adapters[0].keys() == adapters[1].keys()
    assert distance(*adapters) < 1e-6


@pytest.mark.parametrize("kind", [STATE_DICTS[0], pytest.param(STATE_DICTS[1], marks=pytest.mark.slow)])
def test_two_sharded_processes_equal_one(model_path: str, alone: Path, tmp_path: Path, kind: str) -> None:
    assert run_ranks(partial(train, model_path, tmp_path, kind)) == [0, 0]
    check_that_two_equal_one(model_path, alone, tmp_path)
    held = tmp_path / "full" / "checkpoint-4" / SHARDS
    assert held.exists() == (kind == STATE_DICTS[1])
    if held.exists():
        (held / "__1_0.distcp").unlink()
        with pytest.raises(ValueError, match=rf"{SHARDS}/__1_0\.distcp is missing\)\. Copy the whole folder again"):
            load_model(held.parent)


@pytest.mark.slow
def test_sharded_processes_killed_while_they_write_end_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    """At the first and the last rename of the first rank, and while the second writes."""
    sweep_ranks(model_path, tmp_path, {0: (0, -1), 1: (0,)}, SHARDED)
