"""docs/models.md: its command plays a real server, the stand-in of the page."""

from __future__ import annotations

import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.test_readme import ROOT, SHELL, blocks, marked

PAGE = blocks(ROOT / "docs" / "models.md")


def test_the_command_with_an_endpoint_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    [stand_in] = [block.text for block in PAGE if marked(block, "file") == "stand_in.py"]
    (tmp_path / "stand_in.py").write_text(stand_in)
    found = spec_from_file_location("stand_in", tmp_path / "stand_in.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    [command] = [
        line for block in PAGE if block.language in SHELL for line in block.text.splitlines() if "llm:" in line
    ]
    # No server of a reader is at the printed address.
    words = shlex.split(command.replace("http://localhost:11434/v1", module.serve()))
    assert main(words[1:]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert "llm:qwen3:4b in mage/KuhnPoker-Meta-v0" in out
    assert "16 of 16 meta-episodes" in err
