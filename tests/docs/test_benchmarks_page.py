"""The commands of docs/benchmarks.md and docs/publish.md as they are printed, and the examples that end the helps."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import re
import shlex
import shutil
from pathlib import Path

import pytest

from mage_envs.cli.program import COMMANDS, main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from tests.test_readme import ROOT, SHELL, blocks, mark_value

PAGES = ("benchmarks.md", "publish.md")
PANELS = ("Evaluate", "Records", "Exact values")
"""Groups of commands whose examples run here."""
ELSEWHERE = {"report"}
"""Commands whose examples have tests of their own."""


@pytest.mark.more
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_run_as_printed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = blocks(ROOT / "docs" / name)
    for block in page:
        if (file := mark_value(block, "file")) is not None:
            # one panel of the five: the whole suite is a slow test of tests/benchmarks/evaluation/test_suite_command.py
            Path(file).write_text(block.text.replace("agent: scripted:random", "agent: {kuhn: scripted:random}"))
    commands = [line for block in page if block.language in SHELL for line in block.text.splitlines()]
    assert commands
    for command in commands:
        program, *words = shlex.split(command, comments=True)
        assert program == "mage"
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr().out


def example_of(command, capsys):
    assert main([command, "--help"]) == 0
    match = re.search(r"Example: (mage .*)\Z", " ".join(capsys.readouterr().out.split()))
    assert match, f"the help of {command} does not end with an example"
    return match[1]


@pytest.mark.more
def test_each_help_ends_with_an_example_that_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests" / "data" / "rows.yaml", tmp_path)
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    save_tiny(tmp_path / "runs/demo", tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "words", "context": "conversation", "memory": "history"}
    PlaySettings("mage/KuhnPoker-Meta-v0", options, max_new_tokens=1, constrained=True).save("runs/demo")
    rows = (tmp_path / "rows.yaml").read_text().replace("agent: scripted:random", "agent: {kuhn: scripted:random}")
    (tmp_path / "rows.yaml").write_text(rows)  # one panel of the five
    # These write folders that the others read.
    assert main(["eval", "rows.yaml", "--suite", "paper-table1", "--quick", "--out", "runs/t1"]) == 0
    capsys.readouterr()
    first_commands = ("eval",)
    panel_commands = [
        name for name, entry in COMMANDS.items() if entry.panel in PANELS and name not in {*first_commands, *ELSEWHERE}
    ]
    order = [*first_commands, "list", *panel_commands]
    for command in order:
        program, *words = shlex.split(example_of(command, capsys))
        assert (program, words[0]) == ("mage", command)
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
