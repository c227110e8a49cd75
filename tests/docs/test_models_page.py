"""docs/models.md: its command with an endpoint, against a real server of a scripted model."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from tests.opponents.llm.server import LegalModel, Server
from tests.test_readme import ROOT, SHELL, blocks


def test_the_command_with_an_endpoint_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    page = blocks(ROOT / "docs" / "models.md")
    lines = [line for block in page if block.language in SHELL for line in block.text.splitlines()]
    [command] = [line for line in lines if "llm:" in line]
    server = Server(LegalModel())
    try:
        # The server of the tests has one model, at a free port.
        words = shlex.split(command.replace("qwen3:4b@http://localhost:11434/v1", f"tiny@{server.url}"))
        assert main(words[1:]) == 0, capsys.readouterr().err
    finally:
        server.stop()
    out, err = capsys.readouterr()
    assert "llm:tiny in mage/KuhnPoker-Meta-v0" in out
    assert "16 of 16 meta-episodes" in err
