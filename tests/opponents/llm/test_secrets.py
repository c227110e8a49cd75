"""An API key that a server repeats is in no file, in no message and on no terminal."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mage_envs import secrets
from mage_envs.cli.program import main
from mage_envs.opponents.llm import EndpointGenerator
from mage_envs.secrets import MASK, add_secret, scrub
from mage_envs.trainer import MAGETrainer
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Server, Trouble
from tests.opponents.llm.test_endpoint import ask
from tests.trainer.tiny_runs import make_config, make_scripted_generator, save_model

KEY = "cheese-CANARY-7f3e9a1b2c"
VARIABLE = "LUNCH"
"""A name that says nothing of a secret."""
KUHN = ("--env", "mage/KuhnPoker-Meta-v0", "--episodes", "1")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(secrets, "_used", set())


def body(handler: Any, body: Any) -> None:
    handler.send(200, f"{'x' * 280} {handler.headers['Authorization']}".encode())


def error(handler: Any, body: Any) -> None:
    handler.send(400, {"error": {"message": handler.headers["Authorization"], "code": KEY}})


def location(handler: Any, body: Any) -> None:
    handler.send(307, {}, {"Location": f"http://evil.example/{KEY}"})


def answer(handler: Any, body: Any) -> None:
    text = f"You sent {KEY}. <action>{body['messages'][0]['content'][-3:]}</action>"
    handler.send(200, json.dumps({"choices": [{"message": {"content": text}}]}).replace("-", "\\u002d").encode())


def refuse(handler: Any, body: Any) -> None:
    handler.send(200, {"choices": [{"message": {"content": None, "refusal": KEY}}]})


ECHOES = (body, error, location, answer, refuse)


def read_files(folder: Path) -> str:
    """Everything in the files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    raw = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files)
    return "".join(content.decode("utf-8", "replace") for content in raw)


@pytest.mark.parametrize("echo", ECHOES)
def test_no_completion_holds_it(
    server: Server, connect: Connect, echo: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    server.troubles = [echo]
    [completion] = connect(key_variable=VARIABLE, attempts=1).generate([ask()])
    assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {KEY}"]
    # The target of a redirect is in the log alone.
    output = f"{completion}{caplog.text}"
    assert KEY[:6] not in output
    assert completion.no_text == "refusal" or MASK in output


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("seat", ["agent", "opponent"])
def test_eval_writes_it_nowhere(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str], seat: str, workers: int
) -> None:
    # The first call of an agent must succeed, or nothing more is asked. The tiny model answers in place of None.
    server.troubles = [answer, *[*ECHOES, None, None, None, None] * 3]
    model = f"llm:tiny-guided@{server.url},attempts=1,key_variable={VARIABLE}"
    agent, opponent = (model, "kuhn/nash") if seat == "agent" else ("scripted:random", f"{model};")
    words = ["eval", agent, *KUHN, "--opponents", opponent, "--rows", "8", "--env-workers", str(workers)]
    with suppress(SystemExit):  # with status 3, unless each second attempt succeeded
        main([*words, "--out", str(tmp_path / "run")])
    files = read_files(tmp_path)
    assert "sends on to another address" in files
    assert f"You sent {MASK}." in files
    assert KEY not in files
    captured = capfd.readouterr()
    assert "Failures: " in captured.err
    assert KEY not in captured.out + captured.err


def test_training_writes_it_nowhere(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server.troubles = [*ECHOES, None, None, None, None] * 3
    name = f"llm:tiny-guided@{server.url},attempts=1,max_tokens=4,key_variable={VARIABLE}"

    def make_env() -> gym.Env[str, str]:
        return gym.make("mage/KuhnPoker-Meta-v0", style="words", num_episodes=1, disable_env_checker=True)

    config = make_config(tmp_path / "run", max_rollouts=1, groups_per_rollout=12, failure_threshold=1.0)
    MAGETrainer(
        save_model(tmp_path / "model"), config, make_env, {name: 1.0}, generator=make_scripted_generator
    ).train()
    files = read_files(tmp_path / "run")
    assert "sends on to another address" in files
    captured = capfd.readouterr()
    assert KEY not in files + captured.out + captured.err


def test_the_last_line_of_a_command_holds_none(capsys: pytest.CaptureFixture[str]) -> None:
    add_secret(KEY)
    assert main(["eval", KEY, *KUHN]) == 2
    assert f"Unknown agent '{MASK}'" in capsys.readouterr().err


def test_a_line_of_a_log_holds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "correct horse")
    lines = ResumableJsonl(tmp_path / "log.jsonl")
    lines.append([{"step": 0, "a": ["correct horse", {"correct horse": 1}]}])
    assert lines.rows() == [{"step": 0, "a": [MASK, {MASK: 1}]}]


def test_what_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")):
            monkeypatch.delenv(name)
    assert scrub(f"{KEY} none") == f"{KEY} none"
    monkeypatch.setenv("my_token", "abcdefgh")
    monkeypatch.setenv("OTHER_KEY", "abcdefgh-long")
    monkeypatch.setenv("LOCAL_KEY", "none")
    add_secret("none")
    assert scrub(("abcdefgh-long, abcdefgh, none", 5, None)) == [f"{MASK}, {MASK}, none", 5, None]
    EndpointGenerator("m", "http://127.0.0.1:9/v1", key_variable=VARIABLE)
    monkeypatch.delenv(VARIABLE)
    assert scrub(KEY) == MASK, "a variable that was used, whatever its name and what becomes of it"
