"""The tool behind `make versions`: its pins, and a failure of a command. The installations need a package index."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dev.versions import CommandFailed, FreshInstall, clean, core_dependencies, count_bytes, oldest, smoke


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    assert oldest(["gymnasium>=1.4,<2", "numpy>=1.26"]) == ["gymnasium==1.4", "numpy==1.26"]
    pins = oldest(core_dependencies())
    assert all("==" in pin and ">" not in pin and "," not in pin for pin in pins), pins


def test_only_regular_files_count(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"12345")
    (tmp_path / "file").write_bytes(b"123")
    assert count_bytes(tmp_path) == 8


def test_no_variable_leads_back_to_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert "PYTHONPATH" not in clean()
    assert "PATH" in clean()


def test_the_smoke_test_ends_at_the_first_command_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = tmp_path / "bin" / "mage"
    program.write_text('#!/bin/sh\necho "$@" >> called.txt\n[ "$1" != list ] || { echo no games >&2; exit 3; }\n')
    program.chmod(0o755)
    environment = FreshInstall(tmp_path, 0.0, 0.0)
    monkeypatch.setattr("dev.versions.CHECK", "")
    with pytest.raises(CommandFailed, match="list exited with 3: no games"):
        smoke(environment)
    assert (tmp_path / "called.txt").read_text() == "--version\nlist\n"
