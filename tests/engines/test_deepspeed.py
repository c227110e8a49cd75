"""DeepSpeed's ZeRO-2 and ZeRO-3 in two CPU processes: one process's weights, exact resumes, whole models."""

from __future__ import annotations

import os

os.environ["DS_ACCELERATOR"] = "cpu"  # read at import

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deepspeed.ops import __compatible_ops__
from peft import LoraConfig

from mage_envs.trainer.trl import trl_compat
from mage_envs.wrappers.rollout.generation_client import RunStopped
from tests.interruptions import run_in_fork
from tests.trainer.mage_trainer.test_sharded import RUN, check_that_two_equal_one
from tests.trainer.runs.test_interruptions import as_rank, run_ranks
from tests.trainer.tiny_runs import make_scripted_generator, make_trainer, save_model

__compatible_ops__["deepspeed_shm_comm"] = False  # compiled for minutes when first used; gloo does the same
pytestmark = [pytest.mark.deepspeed, pytest.mark.timeout(900)]

ZERO = {
    "zero_allow_untested_optimizer": True,  # torch's AdamW
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
}
STAGES: dict[int, dict[str, Any]] = {
    2: {"stage": 2},
    3: {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}
"""Gradients and optimiser in shards; the weights, too."""
SMALL = {**RUN, "max_tokens_per_microbatch": 40}
"""Several micro-batches make an update."""


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


def train(model: str, folder: Path, stage: int = 0, ranks: Sequence[str] = ()) -> None:
    """Two rollouts; from the first one's checkpoint again; an adapter. In two processes also generation by both."""
    as_rank(ranks)
    engine: dict[str, Any] = {}
    if ranks:
        engine = {"deepspeed": {**ZERO, "zero_optimization": STAGES[stage]}}
    trained = make_trainer(model, folder / "full", make_scripted_generator, **SMALL, **engine)
    trained.train()
    trained.write_model(folder / "model")
    if trained.accelerator.is_main_process:
        shutil.rmtree(folder / "full" / "checkpoint-4")
    trained.accelerator.wait_for_everyone()
    resumed = make_trainer(model, folder / "full", make_scripted_generator, **SMALL, **engine)
    resumed.train(True)
    resumed.write_model(folder / "resumed")
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    short = {**SMALL, **engine, "max_rollouts": 1}
    adapted = make_trainer(model, folder / "lora", make_scripted_generator, peft_config=adapter, **short)
    adapted.train()
    adapted.write_model(folder / "adapter")
    if ranks:
        assert trained.is_deepspeed_enabled
        assert trl_compat.is_sharded(trained) == (stage == 3)
        generated = make_trainer(model, folder / "generated", None, max_rollouts=1, **engine)
        generated.train()
        assert [log["failures"] for log in generated.state.log_history if "failures" in log] == [0.0]
        if ranks[0] == "1":
            next(trl_compat.local_weights(generated)).fill_(float("nan"))
        with pytest.raises(RunStopped, match="The weights are not finite after update 2, so .*broken is not written"):
            generated.write_model(folder / "broken")


def unfit(model: str, folder: Path, ranks: Sequence[str] = ()) -> None:
    """Without the gathering of its weights ZeRO-3 writes no model."""
    as_rank(ranks)
    with pytest.raises(ValueError, match="set stage3_gather_16bit_weights_on_model_save: true"):
        make_trainer(model, folder, make_scripted_generator, deepspeed={**ZERO, "zero_optimization": {"stage": 3}})


@pytest.mark.parametrize("stage", STAGES)
def test_two_sharded_processes_equal_one(model_path: str, tmp_path: Path, stage: int) -> None:
    single_folder, sharded_folder = tmp_path / "one", tmp_path / "two"
    assert run_in_fork(partial(train, model_path, single_folder)) == 0
    assert run_ranks(partial(train, model_path, sharded_folder, stage)) == [0, 0]
    check_that_two_equal_one(model_path, single_folder, sharded_folder)


def test_a_run_that_would_end_without_a_model_is_refused(model_path: str, tmp_path: Path) -> None:
    assert run_ranks(partial(unfit, model_path, tmp_path)) == [0, 0]
