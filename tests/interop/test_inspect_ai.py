"""Inspect AI: `eval()` in one process, the model's server in another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.recorded import ENV, Row, check_record, digest, read_mage, record_rows
from tests.interop.scripted_server import serve_script

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

CODE = """
import json, os, sys
import inspect_ai
from mage_envs.wrappers.adapters.inspect_ai import mage_panel

panel, options, folder = sys.argv[1:]
task = mage_panel(panel, env_kwargs=json.loads(options))
logs = {"log_dir": folder, "log_format": "json", "display": "none"}
if "RETRIES" in os.environ:
    logs["max_retries"] = int(os.environ["RETRIES"])
[log] = inspect_ai.eval(task, model="openai-api/mage/scripted", max_connections=64, **logs)
assert log.status == "success", log.error
print(log.location)
"""


@pytest.mark.parametrize("options", [{}, {"context": "conversation", "memory": "both"}])
def test_a_panel_is_played_as_mage_eval_plays_it(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = record_rows(tmp_path, "kuhn-paper-128", "scripted:first", **options)
    with serve_script(has_usage=False) as (url, requests):
        env = {**ENV, "MAGE_API_KEY": "none", "MAGE_BASE_URL": url}
        command = [sys.executable, "-c", CODE, "kuhn-paper-128", json.dumps(options), str(tmp_path / "log")]
        process = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
    log = json.loads(Path(process.stdout.strip().splitlines()[-1].removeprefix("file://")).read_text())
    samples = sorted(log["samples"], key=lambda sample: int(sample["id"].rpartition("-")[2]))
    scores = [sample["scores"]["values"]["value"] for sample in samples]
    log_rows = [
        Row(
            prompts=[text_of(message) for message in sample["messages"] if message["role"] == "user"],
            replies=[text_of(message) for message in sample["messages"] if message["role"] == "assistant"],
            # In chips; R_k is 5 times the chips of the only hand of an episode.
            rewards=[5.0 * score[f"episode_{episode}"] for episode in (1, 2, 3)],
            secrets=[],
        )
        for sample, score in zip(samples, scores, strict=True)
    ]
    assert digest(log_rows) == digest(rows)
    assert [score["return"] for score in scores] == [sum(row.rewards) for row in rows]
    assert {score["invalid"] for score in scores} == {0}
    assert all({"level", "regret", "best"} <= score.keys() for score in scores)
    record = Path(log["eval"]["metadata"]["record"])
    assert record.parent == tmp_path / "runs"
    check_record(tmp_path, record, len(rows))
    assert len(requests) == sum(len(row.replies) for row in rows)
    received = json.dumps([request["messages"] for request in requests])
    assert not any(secret in received for row in rows for secret in row.secrets)


def test_inspect_finds_the_suite_by_name_and_reports_its_verdict(tmp_path: Path) -> None:
    with serve_script(has_usage=False) as (url, _):
        env = {**ENV, "MAGE_API_KEY": "none", "MAGE_BASE_URL": url}
        program = str(Path(sys.executable).with_name("inspect"))
        options = ["--display", "none", "--log-dir", "log", "--log-format", "json", "-T", "out=record"]
        command = [program, "eval", "mage_envs/adapt", "--model", "openai-api/mage/scripted", *options]
        process = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
    [file] = (tmp_path / "log").glob("*.json")
    log = json.loads(file.read_text())
    assert log["status"] == "success"
    [scores] = log["results"]["scores"]
    shown = {name: metric["value"] for name, metric in scores["metrics"].items()}
    # The script plays by the legal actions alone, so no memory is worth anything to it.
    played = json.loads(read_mage(tmp_path, "adapt", "record", "--json"))
    assert shown["level"] == pytest.approx(played["level"]["mean"], abs=1e-12)
    assert shown["own_memory"] == shown["other_memory"] == 0
    assert played["verdict"] == "does not measurably adapt"


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_an_unreachable_server_is_an_error_of_the_run(tmp_path: Path) -> None:
    env = {**ENV, "MAGE_API_KEY": "none", "MAGE_BASE_URL": "http://127.0.0.1:9/v1", "RETRIES": "0"}
    command = [sys.executable, "-c", CODE, "kuhn-paper-16", "{}", str(tmp_path / "log")]
    process = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode != 0
    assert "Connection" in process.stderr
