"""Runs of `mage eval`, and servers in processes of their own, to compare other frameworks with."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.cli.game_options import as_flags

ROOT = Path(__file__).parents[2]
RUN = "import sys; from mage_envs.cli import program; sys.argv[0] = 'mage'; sys.exit(program.mage())"
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


class Row(NamedTuple):
    """A meta-episode as the model sees it."""

    prompts: list[str]
    """The newest message of each call."""
    replies: list[str]
    rewards: list[float]
    """R_k of each episode."""
    secrets: list[str]
    """Texts that no client may see."""


def digest(rows: Sequence[Row]) -> str:
    """Return the SHA-256 of the prompts, the replies and the rewards of all rows, in order."""
    return hashlib.sha256(json.dumps([row[:3] for row in rows]).encode()).hexdigest()


def record_rows(folder: Path, panel: str, agent: str = "scripted:random", **options: Any) -> list[Row]:
    """Play a panel with `mage eval` in another process, and return its records."""
    out = folder / "run"
    command = ["eval", agent, "--panel", panel, "--out", str(out), *as_flags(options)]
    process = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, cwd=folder, env=ENV)
    assert process.returncode == 0, process.stderr
    files = sorted((out / "episodes").iterdir())
    lines = [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return [
        Row(
            prompts=[call["messages"][-1]["content"] for call in line["calls"]],
            replies=[call["reply"] for call in line["calls"]],
            rewards=[episode["reward"] for episode in line["episodes"]],
            secrets=[secret for secret in (line["opponent"], line["played"], str(line["task"]["seed"])) if secret],
        )
        for line in sorted(lines, key=lambda line: line["index"])
    ]


def line_digests(run: Path) -> dict[int, str]:
    """Return the digest of each recorded meta-episode by its index."""
    files = sorted((run / "episodes").iterdir())
    lines = [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return {line["index"]: line["digest"] for line in lines}


def read_mage(folder: Path, *words: str) -> str:
    """Return what `mage` prints in another process."""
    process = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, cwd=folder, env=ENV)
    assert process.returncode == 0, process.stderr
    return process.stdout


def check_record(folder: Path, record: Path, count: int) -> None:
    """Check that a framework's record has the meta-episodes and the scores of `mage eval` (`record_rows`).

    Args:
        folder: Folder of `record_rows`.
        record: Folder of the framework's record.
        count: Number of the first rows that the framework played.
    """
    expected = line_digests(folder / "run")
    assert line_digests(record) == {index: expected[index] for index in range(count)}
    assert "all as recorded" in read_mage(folder, "verify", "--replay", str(record))
    if count < len(expected):
        return
    assert (record / "root.json").read_text() == (folder / "run" / "root.json").read_text()
    values = [json.loads(read_mage(folder, "adapt", str(run), "--json"))["scale"] for run in (folder / "run", record)]
    for value in values:
        # The sentence names the agent, and the control runs are those of `mage eval` alone.
        del value["sentence"], value["verdict"], value["own"], value["other"]
    assert values[0] == values[1]


def free_port() -> int:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port: int = free_socket.getsockname()[1]
    return port


@contextmanager
def serve_environment(*options: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `mage serve openenv` in a process of its own until it answers, and stop it at the end."""
    command = [sys.executable, "-c", RUN, "serve", "openenv", "--port", str(port), *options]
    with log.open("ab") as output:
        # The records are below the current folder.
        server = subprocess.Popen(command, env=ENV, stdout=output, stderr=output, cwd=log.parent)
    try:
        for _ in range(1200):
            assert server.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield server
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
