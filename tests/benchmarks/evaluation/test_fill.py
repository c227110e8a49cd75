"""`mage eval --fill`: a bank in a file, the same from the same panel, read by an evaluation and named there."""

from __future__ import annotations

import json

import pytest

from mage_envs.cli.program import main
from mage_envs.wrappers import memory_settings

FILL = ["eval", "scripted:random", "--panel", "sokoban-train"]


def test_a_bank_is_filled_and_read(tmp_path, capsys):
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        assert main([*FILL, "--memory", "memento:k=2", "--rows", "3", "--fill", str(file)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    content = json.loads(files[0].read_text())
    assert (content["memory"], len(content["items"]), len(content["sha256"])) == ("memento", 9, 64)
    assert "3 meta-episodes of sokoban-train, 0 lost" in capsys.readouterr().out
    memory = f"memento:k=2,scope=run,bank={files[0]}"
    command = ["eval", "scripted:random", "--env", "mage/Sokoban-Meta-v0", "--rows", "2", "--episodes", "2"]
    assert main([*command, "--memory", memory]) == 0
    bank_hash = memory_settings(memory)["bank"]
    assert bank_hash == memory_settings(memory.replace("a.json", "b.json"))["bank"]
    assert len(bank_hash) == 64


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--memory", "reflexion"], "memory='reflexion' has no bank, so it cannot be filled"),
        (["--memory", "memento:scope=meta"], "--fill sets scope and bank itself. Remove them"),
        (["--memory", "mementoo"], "memory='mementoo' is unknown; Did you mean 'memento'?"),
        (["--memory", "memento", "--panel", "sokoban-trane"], "Did you mean 'sokoban-train'?"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(arguments, says, tmp_path, capsys):
    assert main([*FILL, *arguments, "--rows", "1", "--fill", str(tmp_path / "bank.json")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
    assert not list(tmp_path.iterdir())


def test_a_file_is_never_replaced(tmp_path, capsys):
    (tmp_path / "bank.json").write_text("mine")
    assert main([*FILL, "--memory", "memento", "--rows", "1", "--fill", str(tmp_path / "bank.json")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "bank.json").read_text() == "mine"
