"""FSDP2 in two CPU processes: one process's weights, exact resumes, whole final models."""

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
from tests.interruptions import run_in_fork
from tests.trainer.runs.test_interruptions import SHARDED, as_rank, run_ranks, sweep_ranks
from tests.trainer.sharding import STATE_DICTS, shard_on_cpu
from tests.trainer.tiny_runs import make_scripted_generator, make_trainer

Weights = dict[str, torch.Tensor]
RUN: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 2,
    "learning_rate": 1e-2,
    "beta": 0.1,
    "adam_epsilon": 1e-3,  # Adam would divide the rounding of gradients near 0 by themselves
}


@pytest.fixture(scope="module")
def single_folder(model_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run in one process."""
    folder = tmp_path_factory.mktemp("one")
    assert run_in_fork(partial(train, model_path, folder)) == 0
    return folder


def train(model: str, folder: Path, kind: str = "", ranks: Sequence[str] = ()) -> None:
    """Two rollouts; from the first one's checkpoint again; an adapter. Under FSDP also generation by all ranks."""
    as_rank(ranks)
    if ranks:
        shard_on_cpu(kind)
    trained = make_trainer(model, folder / "full", make_scripted_generator, **RUN)
    trained.train()
    keep(trained, folder / "model")
    if trained.accelerator.is_main_process:
        shutil.rmtree(folder / "full" / "checkpoint-4")
    trained.accelerator.wait_for_everyone()
    resumed = make_trainer(model, folder / "full", make_scripted_generator, **RUN)
    resumed.train(True)
    keep(resumed, folder / "resumed")
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = make_trainer(
        model, folder / "lora", make_scripted_generator, peft_config=adapter, **(RUN | {"max_rollouts": 1})
    )
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


def load_weights(folder: Path) -> Weights:
    """Return the weights in a folder as transformers loads them. Raise AssertionError if a part is missing."""
    model, loading_info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(loading_info.values()), loading_info
    return dict(model.state_dict())


def check_that_two_equal_one(model_path: str, single_folder: Path, sharded_folder: Path) -> None:
    """Check that two processes write the same models as one, and that one process can load their checkpoints."""
    start, one_rank, two_ranks = (
        load_weights(Path(model_path)),
        load_weights(single_folder / "model"),
        load_weights(sharded_folder / "model"),
    )
    assert distance(start, one_rank) > 1e-3  # four updates
    assert distance(one_rank, two_ranks) < 1e-6
    assert distance(load_weights(sharded_folder / "resumed"), two_ranks) == 0.0
    for checkpoint in ("checkpoint-2", "checkpoint-4"):
        assert verify_checkpoint(sharded_folder / "full" / checkpoint) is None
    assert distance(dict(load_model(sharded_folder / "full" / "checkpoint-4").state_dict()), two_ranks) == 0.0
    adapted, final_adapter = (
        load_model(sharded_folder / name).state_dict() for name in ("lora/checkpoint-2", "adapter")
    )
    assert adapted.keys() == final_adapter.keys() != two_ranks.keys()
    assert distance(dict(adapted), dict(final_adapter)) == 0.0
    adapters = [
        load_file(folder / "adapter" / "adapter_model.safetensors") for folder in (single_folder, sharded_folder)
    ]
    assert adapters[0].keys() == adapters[1].keys()
    assert distance(*adapters) < 1e-6


@pytest.mark.parametrize("kind", [STATE_DICTS[0], pytest.param(STATE_DICTS[1], marks=pytest.mark.slow)])
def test_two_sharded_processes_equal_one(model_path: str, single_folder: Path, tmp_path: Path, kind: str) -> None:
    assert run_ranks(partial(train, model_path, tmp_path, kind)) == [0, 0]
    check_that_two_equal_one(model_path, single_folder, tmp_path)
    shards = tmp_path / "full" / "checkpoint-4" / SHARDS
    assert shards.exists() == (kind == STATE_DICTS[1])
    if shards.exists():
        (shards / "__1_0.distcp").unlink()
        with pytest.raises(ValueError, match=rf"{SHARDS}/__1_0\.distcp is missing\)\. Copy the whole folder again"):
            load_model(shards.parent)


@pytest.mark.slow
def test_sharded_processes_killed_while_they_write_end_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    """At the first and the last rename of the first rank, and while the second writes."""
    sweep_ranks(model_path, tmp_path, {0: (0, -1), 1: (0,)}, SHARDED)
