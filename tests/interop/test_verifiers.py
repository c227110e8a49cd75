"""verifiers: `vf-eval` in one process, the model's server in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.recorded import ENV, Row, check_record, digest, read_mage, record_rows
from tests.interop.scripted_server import serve_script

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800), pytest.mark.filterwarnings("default")]

BIN = Path(sys.executable).parent
ROWS = 8
OPTIONS = [
    *("--env.player.runtime.type", "subprocess"),
    *("--env.player.harness.id", "null"),
    *("--client.api-key-var", "OPENAI_API_KEY"),
    *("--rich", "None"),
    *("--select.limit", str(ROWS)),
    "--no-push",
]
"""Without these, vf-eval plays in a hosted sandbox with a shell, and uploads the results."""


def run_eval(folder: Path, url: str, *options: str) -> list[dict[str, Any]]:
    """Run vf-eval on a panel and return its traces."""
    # The harness starts one program per turn with `uv`, which must be on PATH.
    env = {**ENV, "OPENAI_API_KEY": "none", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    command = [str(BIN / "vf-eval"), "mage-envs", "-m", "scripted", "--client.base-url", url, *OPTIONS, *options]
    process = subprocess.run(
        [*command, "--output-dir", str(folder / "out")], env=env, cwd=folder, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    [file] = (folder / "out").glob("*/traces.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_a_panel_is_played_as_mage_eval_plays_it(tmp_path: Path) -> None:
    rows = record_rows(tmp_path, "kuhn-paper-128", "scripted:first", context="conversation", memory="both")[:ROWS]
    with serve_script() as (url, requests):
        episodes = run_eval(tmp_path, url)
    traces = [trace for episode in episodes for trace in episode.get("traces", [episode])]
    assert len(traces) == ROWS
    rows_by_index: dict[int, Row] = {}
    for trace in traces:
        messages = [node["message"] for node in trace["nodes"] if node.get("message")]
        rows_by_index[trace["task"]["data"]["idx"]] = Row(
            prompts=[text_of(message["content"]) for message in messages if message["role"] == "user"],
            replies=[text_of(message["content"]) for message in messages if message["role"] == "assistant"],
            rewards=[5.0 * trace["metrics"][f"value_{episode}"] for episode in (1, 2, 3)],
            secrets=[],
        )
        assert trace["rewards"]["return"]["score"] == sum(rows_by_index[trace["task"]["data"]["idx"]].rewards)
        assert trace["metrics"]["invalid"] == 0
        assert {"level", "regret", "best"} <= trace["metrics"].keys()
    assert digest([rows_by_index[index] for index in range(ROWS)]) == digest(rows)
    received = json.dumps([request["messages"] for request in requests])
    assert not any(secret in received for row in rows for secret in row.secrets)
    [record] = (tmp_path / "runs").iterdir()
    check_record(tmp_path, record, ROWS)


def test_a_memory_with_fresh_chats_has_one_trace_per_chat(tmp_path: Path) -> None:
    options = json.dumps({"memory": "reflection", "num_episodes": 2, "max_turns": 1})
    with serve_script() as (url, requests):
        episodes = run_eval(tmp_path, url, "--env.taskset.env-kwargs", options, "--select.limit", "1")
    traces = [trace for episode in episodes for trace in episode.get("traces", [episode])]
    assert len(traces) == 2
    # The second chat starts with its own prompt, which shows the reflection and not the first episode.
    assert len(requests) == 3
    assert len(requests[-1]["messages"]) == 1
    assert "No remark." in text_of(requests[-1]["messages"][0]["content"])


def test_an_exported_folder_is_an_environment_of_its_panel(tmp_path: Path) -> None:
    read_mage(tmp_path, "export", "kuhn-paper-16", "--to", "verifiers", "--out", "mage_kuhn")
    code = "from verifiers.v1.utils.loaders import taskset_config_type; print(taskset_config_type('mage-kuhn')().panel)"
    # In the folder, as `pip install` would make the package known.
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "mage_kuhn", capture_output=True, text=True, env=ENV
    )
    assert process.stdout == "kuhn-paper-16\n", process.stderr
