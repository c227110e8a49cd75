"""OpenEnv: the server in one process, its clients in others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mage_envs import PUBLIC_KEYS
from mage_envs.cli.game_options import as_flags
from tests.interop.recorded import (
    ENV,
    Row,
    check_record,
    digest,
    free_port,
    line_digests,
    read_mage,
    record_rows,
    serve_environment,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

KEYS = {"prompt", "metadata", "columns", *PUBLIC_KEYS}
KUHN = "kuhn-paper-128"
SESSIONS = 64


async def play_row(url: str, split: str, index: int, replies: list[str]) -> tuple[Row, str]:
    """Play one row with these replies. Returns it, and everything that the client received as one text."""
    from openenv import GenericEnvClient

    prompts, rewards, received = [], [], []
    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(split=split, index=index)
        for reply in replies:
            assert not result.done
            prompts.append(result.observation["prompt"])
            received.append(result)
            result = await client.step({"text": reply})
            rewards.append(result.reward)
        received.append(result)
    assert result.done
    for received_result in received:
        assert received_result.observation.keys() <= KEYS
        # The client adds its own empty dict to the observation.
        assert not received_result.metadata
        assert not received_result.observation["metadata"]
    text = json.dumps([[received_result.observation, received_result.metadata] for received_result in received])
    return Row(prompts, replies, [reward for reward in rewards if reward], []), text


async def columns_of(url: str, split: str, replies: list[str]) -> dict[str, float]:
    """Play the first row again, and return the columns of the last observation."""
    from openenv import GenericEnvClient

    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(split=split, index=0)
        for reply in replies:
            assert result.observation["columns"] == {}
            result = await client.step({"text": reply})
    columns: dict[str, float] = result.observation["columns"]
    return columns


@pytest.mark.parametrize(
    ("split", "options"),
    [
        (KUHN, {}),
        (KUHN, {"context": "conversation", "memory": "both"}),
        ("sokoban-eval-2box-16", {"max_turns": 4}),
        ("webshop-test-16", {"max_turns": 3}),
    ],
)
def test_64_sessions_play_what_mage_eval_plays(tmp_path: Path, split: str, options: dict[str, Any]) -> None:
    rows = record_rows(tmp_path, split, **options)
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def all_rows() -> list[tuple[Row, str]]:
        results = []
        for start in range(0, len(rows), SESSIONS):
            numbered_rows = list(enumerate(rows))[start : start + SESSIONS]
            results += await asyncio.gather(*(play_row(url, split, index, row.replies) for index, row in numbered_rows))
        return results

    with serve_environment(*as_flags(options), port=port, log=tmp_path / "log"):
        results = asyncio.run(all_rows())
        last = asyncio.run(columns_of(url, split, rows[0].replies))
        described = post(url, "num_tasks", split=split), post(url, "task", split=split, index=0)
    # The client cannot distinguish a reward of 0 from the step's own 0.
    expected = [row._replace(rewards=[reward for reward in row.rewards if reward]) for row in rows]
    assert digest([row for row, _ in results]) == digest(expected)
    for (_, text), row in zip(results, rows, strict=True):
        assert not any(json.dumps(secret)[1:-1] in text for secret in row.secrets)
    # A second play of a row is in a record of its own.
    [server] = (tmp_path / "runs").iterdir()
    assert sorted(path.name for path in server.iterdir()) == [split, f"{split}-pass-2"]
    judged = split == KUHN
    assert set(last) == ({"level", "regret", "best"} if judged else set())
    if judged:
        check_record(tmp_path, server / split, len(rows))
    else:
        assert line_digests(server / split) == line_digests(tmp_path / "run")
    assert described[0] == {"num_tasks": len(rows)}
    assert set(described[1]["task"]) == {"id", "index", "env_id"}


def post(url: str, route: str, **body: Any) -> Any:
    request = urllib.request.Request(
        f"{url}/mage_envs/{route}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request, timeout=60))


def test_bad_actions_and_bad_resets_do_not_end_a_session(tmp_path: Path) -> None:
    from openenv import GenericEnvClient

    async def talk(url: str) -> None:
        async with GenericEnvClient(base_url=url) as client:
            for options, error in (
                ({"seed": -1}, "Seed must be"),
                ({"opponent": "os:system"}, "list_opponents"),
                ({"opponent": "checkpoint:/etc"}, "list_opponents"),
                ({"env_kwargs": {"data": "/etc"}}, "unknown options of reset: env_kwargs"),
                ({"split": "nothing"}, "Unknown panel"),
                ({"split": KUHN, "index": 10**6}, "must be from 0 to"),
                ({"split": KUHN, "seed": 1}, "own seed"),
                ({"seat": "third"}, "must be a seat"),
            ):
                with pytest.raises(Exception, match=error):
                    await client.reset(**options)
            result = await client.reset(seed=1, opponent="kuhn/nash", seat="first")
            first_prompt = result.observation["prompt"]
            for action in ({"words": "bet"}, {}, {"text": "bet", "more": 1}):
                with pytest.raises(Exception, match="VALIDATION_ERROR|Invalid"):
                    await client.step(action)
            for text in (5, [3], None, {"a": 1}, "\ud800", "x" * 100_000):
                result = await client.step({"text": text})
                if result.done:
                    break
            assert (await client.reset(seed=1, opponent="kuhn/nash", seat="first")).observation[
                "prompt"
            ] == first_prompt

    port = free_port()
    with serve_environment(port=port, log=tmp_path / "log"):
        asyncio.run(talk(f"http://127.0.0.1:{port}"))


CLIENT = """
import asyncio, sys
from openenv import GenericEnvClient

async def main():
    client = GenericEnvClient(base_url=sys.argv[1])
    await client.connect()
    await client.reset(seed=1)
    print("playing", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_killed_client_frees_its_session(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    [row, *_] = record_rows(tmp_path, "kuhn-paper-16")
    with serve_environment("--max-sessions", "1", port=port, log=tmp_path / "log"):
        client = subprocess.Popen([sys.executable, "-c", CLIENT, url], env=ENV, stdout=subprocess.PIPE)
        assert client.stdout is not None
        assert client.stdout.readline() == b"playing\n"
        with pytest.raises(Exception, match="capacity|CAPACITY"):
            asyncio.run(play_row(url, "kuhn-paper-16", 0, row.replies))
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        for attempt in range(100):
            try:
                played_row, _ = asyncio.run(play_row(url, "kuhn-paper-16", 0, row.replies))
                break
            except Exception:
                assert attempt < 99
                time.sleep(0.2)
        assert played_row.prompts == row.prompts


def test_a_killed_server_is_an_error_of_its_clients(tmp_path: Path) -> None:
    from openenv import GenericEnvClient

    async def talk(server: subprocess.Popen[bytes], url: str) -> None:
        client = GenericEnvClient(base_url=url)
        await client.connect()
        await client.reset(seed=1)
        server.kill()
        server.wait()
        with pytest.raises(Exception, match=r"\S"):
            await asyncio.wait_for(client.step({"text": "bet"}), 60)

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    [row, *_] = record_rows(tmp_path, "kuhn-paper-16")
    with serve_environment(port=port, log=tmp_path / "log") as server:
        asyncio.run(talk(server, url))
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{url}/health", timeout=5)
    with serve_environment(port=port, log=tmp_path / "log"):
        played_row, _ = asyncio.run(play_row(url, "kuhn-paper-16", 0, row.replies))
    assert played_row.prompts == row.prompts


def test_an_exported_folder_passes_what_openenv_checks_without_a_container(tmp_path: Path) -> None:
    read_mage(tmp_path, "export", "KuhnPoker", "--to", "openenv", "--out", "kuhn_env")
    (tmp_path / "kuhn_env" / "uv.lock").write_text("")
    program = str(Path(sys.executable).with_name("openenv"))
    process = subprocess.run([program, "validate", "kuhn_env"], cwd=tmp_path, capture_output=True, text=True)
    assert "PASS  static.manifest" in process.stdout, process.stdout
