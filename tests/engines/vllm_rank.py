"""One of two processes with vLLM: `python -m tests.engines.vllm_rank MODEL FOLDER BACKEND [SERVER]`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration

from dev.gpu.vllm import make_config, verdict
from mage_envs.trainer import MAGETrainer
from tests.engines.conftest import take_weights


def main(model: str, folder: str, backend: str, server: str = "") -> None:
    """With a server nothing is pushed, which takes NCCL, so that nothing is learned either."""
    config = make_config(backend, Path(folder))
    with pytest.MonkeyPatch.context() as patch:
        take_weights(patch)
        if server:
            patch.setattr(VLLMClient, "init_communicator", lambda client, device: None)
            patch.setattr(VLLMGeneration, "sync_weights", lambda engine: None)
            config.vllm_mode, config.vllm_server_base_url, config.learning_rate = "server", server, 0.0
        trainer = MAGETrainer(model, config)
        trainer.train()
    logs = [log for log in trainer.state.log_history if "time/update" in log and "grad_norm" in log]
    assert trainer.accelerator.num_processes == 2
    assert verdict(logs) is None, verdict(logs)


if __name__ == "__main__":
    main(*sys.argv[1:])
