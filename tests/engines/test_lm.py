"""A pretrained language model, SmolLM2-135M-Instruct, through evaluation, training and servers: `make lm`."""

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
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from mage_envs.cli.program import main
from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.backends.weights import load_model
from mage_envs.trainer.cli.imitation import RANDOM, Imitation, imitating_copy
from mage_envs.trainer.config.run_settings import RunSettings
from tests.engines.pretrained import smollm2
from tests.trainer.tiny_runs import flags

pytestmark = [pytest.mark.lm, pytest.mark.timeout(900)]

__all__ = ["smollm2"]
ULTIMATUM = flags(
    env_id="mage/Ultimatum-Meta-v0",
    prompt_style="words",
    context="conversation",
    memory="history",
    backend="cached",
    num_episodes=2,
    max_completion_length=6,
    max_prompt_length=256,
    groups_per_rollout=1,
    num_generations=2,
    max_rollouts=1,
    updates_per_rollout=1,
    advantage="member_mean",
    advantage_norm="mean",
    learning_rate=1e-3,
    save_strategy="no",
    use_cpu="true",
    disable_tqdm="true",
)
"""Arguments of a training run of one update in which the replies of a group differ in length, legal or not."""
DILEMMA = ["--env", "mage/PrisonersDilemma-Meta-v0", "--episodes", "2", "--rows", "1", "--memory", "history"]
DILEMMA += ["--game-option", "rounds=1", "--game-option", "on_invalid=forfeit", "--opponents", "pd/all-c"]


def summary_of(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def test_the_folder_is_a_plain_model_that_ends_its_replies(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = load_model(smollm2)
    for part in (tokenizer, model.config, model.generation_config):
        assert (part.bos_token_id, part.eos_token_id, part.pad_token_id) == (1, 2, 0)
    assert sum(weight.numel() for weight in model.parameters()) == 134_515_008
    tokens = ChatTokenizer(tokenizer)
    generator = HFGenerator(model, tokens, Sampling(24, temperature=0))
    question = Message("user", "What is the capital of France? Answer in one sentence.")
    [answer] = generator.generate([Prompt((question,))])
    # Weights in a wrong order, or a wrong end token, give another answer or one of 24 tokens.
    assert "Paris" in answer.text
    assert not answer.truncated
    assert answer.ids[-1] == 2


def test_the_ids_of_a_conversation_are_those_of_its_own_template(smollm2: Path) -> None:
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(smollm2))
    first_message, second_message = Message("user", "offer?"), Message("user", "refuse +0")
    chat = (first_message, Message("assistant", "offer 3"), second_message)
    assert tokens.turn_end_id == 2
    first_ids = tokens.encode(Prompt((first_message,)))
    reply = Completion("offer 3", first_ids, tokens.encode_reply("offer 3"))
    all_ids = tokens.tokenizer.apply_chat_template(
        [message._asdict() for message in chat], add_generation_prompt=True, return_dict=False
    )
    assert tokens.encode(Prompt(chat, previous=reply)) == tuple(all_ids)
    # The template adds a system message of its own.
    assert tokens.decode(first_ids).startswith("system\nYou are a helpful AI assistant named SmolLM")


@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
def test_any_folder_is_an_agent(smollm2: Path, context: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    agent = f"hf:{smollm2},max_tokens=12"
    assert main(["eval", agent, *DILEMMA, "--game-option", f"context={context}", "--out", str(out)]) == 0
    about = json.loads((out / "run.json").read_text())
    assert about["agent"]["name"] == agent
    request = about["agent"]["request"]
    # The probe's findings about replies are part of the request, too.
    assert request.pop("reply_format")["end_ids"] == [2]
    assert request == {"max_tokens": 12, "max_prompt_tokens": 4096, "temperature": 1.0}
    assert len(about["agent"]["content"]) == 16
    assert main(["verify", str(out)]) == 0
    assert main(["verify", "--replay", str(out)]) == 0


def test_all_weights_learn_and_the_model_is_an_opponent(smollm2: Path, tmp_path: Path) -> None:
    out = tmp_path / "trained"
    assert (
        main(
            [
                "train",
                "--model",
                str(smollm2),
                *ULTIMATUM,
                "--imitate",
                "scripted:random",
                "--imitate_steps",
                "1",
                "--output_dir",
                str(out),
            ]
        )
        == 0
    )
    model_before, model_after = load_model(smollm2), load_model(out)
    names = [name for name, weight in model_after.named_parameters() if weight.ndim > 1]
    moved = [
        not model_after.get_parameter(name).equal(model_before.get_parameter(name).to(model_after.dtype))
        for name in names
    ]
    assert all(moved)
    # The second seat of the game: the model reads an offer and replies.
    run = tmp_path / "run"
    options = ["--env", "mage/Ultimatum-Meta-v0", "--episodes", "2", "--rows", "1", "--out", str(run)]
    assert main(["eval", "scripted:first", *options, "--opponents", f"checkpoint:{out}"]) == 0
    assert summary_of(run)["rows"][0]["meta_episodes"] == 1


def test_an_adapter_learns_and_plays_as_it_was_trained(smollm2: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapted"
    lora = flags(use_peft="true", lora_r=4, dtype="bfloat16")
    lora += ["--lora_target_modules", "q_proj", "v_proj"]
    assert main(["train", "--model", str(smollm2), *ULTIMATUM, *lora, "--output_dir", str(out)]) == 0
    assert (out / "adapter_config.json").exists()
    adapted: Any = load_model(out)
    second = [weight for name, weight in adapted.named_parameters() if "lora_B" in name]
    # The second factors start at zero, so any other value was learned.
    assert len(second) == 60
    assert all(weight.abs().max() > 0 for weight in second)
    run = tmp_path / "run"
    assert main(["eval", str(out), "--rows", "1", "--opponents", "ultimatum/reserve:3", "--out", str(run)]) == 0
    assert summary_of(run)["rows"][0]["meta_episodes"] == 1


def test_a_warm_start_teaches_the_form_of_the_answers(smollm2: Path, tmp_path: Path) -> None:
    """Six steps of random legal play put most of the probability on whole legal replies, and prefer none of them."""
    config = RunSettings(
        env_id="mage/Ultimatum-Meta-v0", prompt_style="words", context="conversation", memory="history", num_episodes=2
    )
    warm = Path(imitating_copy(str(smollm2), tmp_path / "warm", config, Imitation([RANDOM], 6)))
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(warm))
    offers = [f"offer {slices}" for slices in range(1, 11)]
    prompt = Prompt((Message("user", "episode 1 first"),))
    probabilities = []
    for folder in (smollm2, warm):
        [scores] = HFGenerator(load_model(folder), tokens, Sampling(8)).score([prompt], [offers])
        probabilities.append(np.exp(scores))
    assert probabilities[0].sum() < 0.01
    assert probabilities[1].sum() > 0.5
    assert probabilities[1].max() < 0.5
    assert load_model(warm).dtype is torch.bfloat16


@pytest.fixture(scope="module")
def server_url(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of llama.cpp's OpenAI-compatible server with the model's GGUF file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("llama") / "server.log"
    options = ["--model", f"{smollm2}.gguf", "--n_ctx", "2048", "--n_threads", "1", "--port", str(port)]
    with log.open("w") as written:
        server = subprocess.Popen(
            [sys.executable, "-m", "llama_cpp.server", *options], stdout=written, stderr=written, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{url}/models", timeout=5):
                break
            assert server.poll() is None, log.read_text()[-3000:]
            time.sleep(0.5)
        yield url
    finally:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, ending)
                server.wait(30)


def test_a_served_model_is_an_agent(server_url: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["eval", f"llm:smollm2@{server_url},max_tokens=12,cache=off", *DILEMMA, "--out", str(out)]) == 0
    row = summary_of(out)["rows"][0]
    assert row["meta_episodes"] == 1
    assert main(["verify", str(out)]) == 0


def test_a_served_model_is_an_opponent(server_url: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    opponent = f"llm:smollm2@{server_url},max_tokens=12,temperature=0,cache=off"
    options = ["--env", "mage/PrisonersDilemma-Meta-v0", "--episodes", "1", "--rows", "1", "--out", str(out)]
    options += ["--game-option", "rounds=2"]
    assert main(["eval", "scripted:first", *options, "--opponents", opponent]) == 0
    assert summary_of(out)["rows"][0]["meta_episodes"] == 1
